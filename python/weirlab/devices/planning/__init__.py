"""Planning: what fitted devices can carry, and better orders for rulesets."""
