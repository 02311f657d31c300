"""The level-based loop: store, queue, observe, plan, execute. Talks to the world through protocols only."""
