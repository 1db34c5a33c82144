"""The maths and the tick, pure: readings, owners and time go in, what is remembered and a snapshot come out."""
