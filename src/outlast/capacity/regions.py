"""The regions of Google Cloud, and which of them a bucket's location covers.

Facts of the platform. A region that is not listed may be newer than this table.
"""

from outlast._base.regions import DUAL_REGIONS, MULTI_REGIONS
from outlast.capacity.price import region_of

REGIONS = (
    "africa-south1",
    "asia-east1", "asia-east2",
    "asia-northeast1", "asia-northeast2", "asia-northeast3",
    "asia-south1", "asia-south2",
    "asia-southeast1", "asia-southeast2", "asia-southeast3",
    "australia-southeast1", "australia-southeast2",
    "europe-central2", "europe-north1", "europe-north2", "europe-southwest1",
    "europe-west1", "europe-west2", "europe-west3", "europe-west4", "europe-west6",
    "europe-west8", "europe-west9", "europe-west10", "europe-west12",
    "me-central1", "me-central2", "me-west1",
    "northamerica-northeast1", "northamerica-northeast2", "northamerica-south1",
    "southamerica-east1", "southamerica-west1",
    "us-central1", "us-east1", "us-east4", "us-east5", "us-south1",
    "us-west1", "us-west2", "us-west3", "us-west4",
)  # fmt: skip


def covers(location: str, region: str) -> bool | None:
    """Whether a bucket at this location is near the region; None if it is no location at all.

    A location is a region, a pair of them such as nam4, a continent such as eu, or a zone.
    """
    if location in DUAL_REGIONS:
        return region in DUAL_REGIONS[location]
    if location in MULTI_REGIONS:
        return region.startswith(MULTI_REGIONS[location])
    if region_of(location) == region:
        return True
    return False if region_of(location) in REGIONS else None
