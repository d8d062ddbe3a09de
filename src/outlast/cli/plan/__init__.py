"""Commands that plan capacity and cost."""
