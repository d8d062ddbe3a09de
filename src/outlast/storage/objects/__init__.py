"""The store in Google Cloud Storage, Amazon S3 or Azure Blob Storage."""
