"""What the API server refuses although the schema allows it. `objects.py` is the entrance."""
