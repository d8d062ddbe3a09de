"""The Google Cloud Pub/Sub queue."""
