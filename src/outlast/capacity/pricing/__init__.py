"""Machines and what they cost per hour."""
