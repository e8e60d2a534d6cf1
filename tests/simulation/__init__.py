"""The deterministic simulator: the real flows against the fakes, everything that can go wrong, and judges.

    history.py      one seed from beginning to end: troubles, then calm
    scenario.py     what a seed draws: buckets, tables, policies, sizes
    reminders.py    records: which of them a policy means
    faults.py       the kinds of trouble, and how much of each
    scheduling.py   virtual time and tasks
    boundary.py     port calls as requests under way
    effects.py      what a call did to a service
    simulated.py    the functions as Lambda, EventBridge and SQS run them
    outside.py      everybody else: who uses the buckets, the queue's moods, deploys
    application.py  the application that writes and rewrites the records
    called.py       the application's endpoint
    operating.py    people who approve, stop, replay and undo
    oracles/        the judges, each of one promise
    visits.py       what was gone through, and what never was
    tracing.py      a history as people read it
    bugs.py         classic bugs, each of which a judge must find

Everything random is drawn from the seed, and nothing else decides: a seed replays exactly.
"""
