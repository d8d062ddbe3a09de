"""Where the buckets of Google Cloud lie that have copies in more than one region. Facts only."""

DUAL_REGIONS = {
    "asia1": ("asia-northeast1", "asia-northeast2"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "nam4": ("us-central1", "us-east1"),
}

MULTI_REGIONS = {"us": "us-", "eu": "europe-", "asia": "asia-"}
"""By how the names of their regions begin."""
