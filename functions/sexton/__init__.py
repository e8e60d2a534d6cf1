"""Sexton: retention on AWS, from schedule to settled books."""
