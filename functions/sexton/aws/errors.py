"""What an error of AWS means: one table from the services' codes, used by every adapter.

A code that is not in the table is transient and its effect unknown: never absent, never success.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.redact import redact

Kind = tuple[ReasonClass, bool]  # and whether the effect may have happened all the same

REFUSED: Kind = (ReasonClass.TRANSIENT, False)  # the service said no, this time
UNSURE: Kind = (ReasonClass.TRANSIENT, True)  # the service broke off
THROTTLED: Kind = (ReasonClass.THROTTLED, False)
PERMANENT: Kind = (ReasonClass.PERMANENT, False)
GONE: Kind = (ReasonClass.GONE, False)
CHANGED: Kind = (ReasonClass.CHANGED, False)
LOCKED: Kind = (ReasonClass.LOCKED, False)

# The codes as the API references of S3, DynamoDB, SQS, Lambda, EventBridge and its Scheduler list them, and those
# common to all. A HEAD has no body, hence no code: botocore puts the HTTP status in its place.
_CODES_OF: Mapping[Kind, str] = {
    UNSURE: """
        InternalError InternalFailure InternalServerError InternalException ServiceException InternalServiceException
        InternalServerException InternalServiceError RequestTimeout RequestTimeoutException RequestAbortedException
        PriorRequestNotComplete
        TransactionInProgressException 500 502 504 408
    """,
    REFUSED: """
        OperationAborted ConditionalRequestConflict TemporaryRedirect 307 409
        TransactionConflict TransactionConflictException TransactionCanceledException ReplicatedWriteConflictException
        ExpiredToken ExpiredTokenException RequestExpired TokenRefreshRequired RequestTimeTooSkewed
        ResourceConflictException ConflictException ResourceInUseException ResourceNotReadyException
        EC2UnexpectedException ENINotReadyException
        SubnetIPAddressLimitReachedException ENILimitReachedException EFSIOException EFSMountConnectivityException
        EFSMountTimeoutException S3FilesMountConnectivityException S3FilesMountTimeoutException
        SnapStartException SnapStartNotReadyException SnapStartTimeoutException SnapStartRegenerationFailureException
        CodeArtifactUserPendingException
    """,
    THROTTLED: """
        SlowDown ServiceUnavailable ServiceUnavailableException Busy 503 429
        Throttling ThrottlingException ThrottledException ThrottlingError RequestThrottled RequestThrottledException
        TooManyRequestsException RequestLimitExceeded BandwidthLimitExceeded LimitExceededException
        ProvisionedThroughputExceeded ProvisionedThroughputExceededException OverLimit
        KmsThrottled KMS.ThrottlingException KMSThrottlingException EC2ThrottledException
    """,
    PERMANENT: """
        AccessDenied AccessDeniedException AllAccessDisabled AccountProblem NotSignedUp OptInRequired NotAuthorized
        UnauthorizedAccess UnauthorizedOperation InvalidAccessKeyId InvalidClientTokenId InvalidToken InvalidSecurity
        SignatureDoesNotMatch IncompleteSignature IncompleteSignatureException InvalidSignatureException
        UnrecognizedClientException MissingAuthenticationToken MissingAuthenticationTokenException
        AuthorizationHeaderMalformed AuthorizationQueryParametersError InvalidPayer InvalidObjectState
        NoSuchBucket InvalidBucketName InvalidBucketState InvalidBucketOwnerAWSAccountID PermanentRedirect
        IllegalLocationConstraintException MethodNotAllowed NotImplemented InvalidRequest InvalidArgument InvalidURI
        InvalidDigest InvalidStorageClass InvalidWriteOffset BadDigest BadRequest EntityTooLarge EntityTooSmall
        EncryptionTypeMismatch TooManyParts KeyTooLongError MalformedXML MalformedPolicy MissingContentLength
        MissingSecurityHeader MetadataTooLarge XAmzContentSHA256Mismatch XAmzContentChecksumMismatch
        CredentialsNotSupported UserKeyMustBeSpecified UnexpectedContent
        ResourceNotFoundException ValidationException ValidationError SerializationException
        IdempotentParameterMismatchException ItemCollectionSizeLimitExceeded ItemCollectionSizeLimitExceededException
        DuplicateItem UnknownOperationException UnknownOperation InvalidAction InvalidParameterValue
        InvalidParameterCombination InvalidQueryParameter MissingParameter MissingRequiredParameter MissingAction
        MalformedQueryString MalformedHttpRequestException
        QueueDoesNotExist NonExistentQueue QueueDeletedRecently InvalidAddress InvalidAttributeName
        InvalidAttributeValue InvalidMessageContents BatchEntryIdsNotDistinct BatchRequestTooLong EmptyBatchRequest
        InvalidBatchEntryId TooManyEntriesInBatchRequest UnsupportedOperation MessageNotInflight
        ReceiptHandleIsInvalid KmsAccessDenied KmsDisabled KmsInvalidKeyUsage KmsInvalidState KmsNotFound
        KmsOptInRequired KMS.AccessDeniedException KMS.DisabledException KMS.InvalidStateException
        KMS.KMSInvalidStateException KMS.NotFoundException
        KMSAccessDeniedException KMSDisabledException KMSInvalidStateException KMSNotFoundException
        RequestEntityTooLargeException RequestTooLargeException SerializedRequestEntityTooLargeException
        UnsupportedMediaTypeException InvalidParameterValueException InvalidRequestContentException
        InvalidRuntimeException InvalidSecurityGroupIDException InvalidSubnetIDException InvalidZipFileException
        EC2AccessDeniedException EFSMountFailureException S3FilesMountFailureException ModeNotSupportedException
        NoPublishedVersionException RecursiveInvocationException ServiceQuotaExceededException
        DurableExecutionAlreadyStartedException CodeArtifactUserDeletedException CodeArtifactUserFailedException
        MalformedDetail NotAuthorizedForSourceException InvalidEventPatternException
        DecryptionFailure InvalidRequestException InvalidParameterException
        301 400 401 403 405 411 413 501
    """,
    GONE: "NoSuchKey NoSuchVersion NoSuchUpload NotFound 404 410",
    CHANGED: "PreconditionFailed ConditionalCheckFailed ConditionalCheckFailedException 412",
}

CODES: Mapping[str, Kind] = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}

# S3 refuses to remove what is under Object Lock or a legal hold with the code of a missing permission; only the
# text tells them apart.
_LOCK = re.compile(r"object lock|legal hold", re.IGNORECASE)
_DENIED = {"AccessDenied", "AccessDeniedException"}

# SQS still answers with the codes of its older protocol, which carry this before the name.
_OLD_SQS = "AWS.SimpleQueueService."

# All that a client raises. An answer that cannot be parsed has no place in botocore's own tree.
SDK_ERRORS = (botocore.BotoCoreError, botocore.ClientError, ResponseParserError)
SdkError = botocore.BotoCoreError | botocore.ClientError | ResponseParserError

# Errors of the SDK itself that say that nothing was sent.
_NOT_SENT = (
    botocore.EndpointConnectionError,
    botocore.ConnectTimeoutError,
    botocore.ProxyConnectionError,
    botocore.SSLError,
)
_MISTAKES = (
    botocore.ParamValidationError,
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.NoRegionError,
    botocore.InvalidRegionError,
    botocore.ProfileNotFound,
    botocore.UnknownServiceError,
)


def kind_of(code: str, message: str = "") -> Kind:
    """What a service's code means; an unmapped one is transient and its effect unknown."""
    if code in _DENIED and _LOCK.search(message):
        return LOCKED
    return CODES.get(code.removeprefix(_OLD_SQS), UNSURE)


def failure(code: str, message: str = "") -> Failure:
    """The failure of one entry of a batch, which has a code and a text and nothing else."""
    reason_class, unknown = kind_of(code, message)
    return Failure(reason_class, redact(code) or "Unknown", redact(message), unknown)


def failure_of(error: SdkError, *, only_attempt: bool = False) -> Failure:
    """The failure of a whole call.

    `only_attempt`: the SDK did not retry. Otherwise an earlier attempt may have acted, whatever the last one says.
    """
    if isinstance(error, botocore.ClientError):
        return _of_answer(error)
    name = type(error).__name__
    if isinstance(error, _MISTAKES):
        return Failure(ReasonClass.PERMANENT, name, redact(str(error)))
    unknown = not (only_attempt and isinstance(error, _NOT_SENT))
    return Failure(ReasonClass.TRANSIENT, name, redact(str(error)), unknown)


def code_of(error: botocore.ClientError) -> str:
    """The service's code, without the prefix of SQS's older protocol."""
    return str(error.response.get("Error", {}).get("Code", "Unknown")).removeprefix(_OLD_SQS)


def was_retried(error: botocore.ClientError) -> bool:
    """Whether the SDK had tried before: then an earlier attempt may have acted."""
    return int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0


@contextmanager
def calls(*, only_attempt: bool = False) -> Iterator[None]:
    """Turns what botocore raises inside into CallFailed."""
    try:
        yield
    except SDK_ERRORS as error:
        raise CallFailed(failure_of(error, only_attempt=only_attempt)) from error


def _of_answer(error: botocore.ClientError) -> Failure:
    code = code_of(error)
    message = str(error.response.get("Error", {}).get("Message", ""))
    reason_class, unknown = kind_of(code, message)
    return Failure(
        reason_class,
        redact(code) or "Unknown",
        redact(message),
        unknown or was_retried(error),
        _retry_after(error.response),
    )


def _retry_after(response: Mapping[str, Any]) -> float | None:
    """The seconds the service asks to wait, from a Retry-After of either form; None when it asks nothing."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    given = str(headers.get("retry-after", "")).strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", given):
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, OverflowError):  # absent, no date either, or none that a clock has
        return None
