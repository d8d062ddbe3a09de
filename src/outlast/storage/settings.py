"""The settings of stores."""

from enum import StrEnum

from outlast._base.settings import Setting, choice_of, flag, setting, text_of


class Share(StrEnum):
    """Who besides the owner may use the files of a local store."""

    NONE = "none"
    GROUP = "group"


SHARE = setting(
    "share",
    choice_of(Share),
    Share.NONE,
    meaning="Who else may use the files of a run, a SQLite queue or sink, or a drill: "
    "`none`, or the `group` of the folder. Applies to new files.",
    hint="Set it to none or group.",
)


def _endpoint(variable: str, meaning: str) -> Setting[str]:
    hint = "Set it to a URL such as https://storage.example.com."
    return setting("", text_of("a URL"), "", variable=variable, meaning=meaning, hint=hint)


def _allow_http(variable: str, endpoint: str) -> Setting[bool]:
    return setting(
        "",
        flag,
        False,
        variable=variable,
        default_text="false",
        meaning=f"Allow an `http://` server in `{endpoint}`. Data and credentials are then sent "
        "unencrypted.",
        hint="Set it to true or false.",
    )


GCS_ENDPOINT = _endpoint(
    "OUTLAST_GCS_ENDPOINT", "Server to use for `gs://` instead of Google Cloud Storage."
)
STORAGE_EMULATOR_HOST = _endpoint(
    "STORAGE_EMULATOR_HOST", "Emulator on this machine to use for `gs://`, without credentials."
)
AWS_ENDPOINT_URL_S3 = _endpoint(
    "AWS_ENDPOINT_URL_S3", "Server to use for `s3://` instead of Amazon S3, such as MinIO."
)
AWS_ENDPOINT_URL = _endpoint(
    "AWS_ENDPOINT_URL", "The same, used if `AWS_ENDPOINT_URL_S3` is not set."
)
AWS_ALLOW_HTTP = _allow_http("AWS_ALLOW_HTTP", "AWS_ENDPOINT_URL")
AWS_UNSIGNED_PAYLOAD = setting(
    "",
    flag,
    True,
    variable="AWS_UNSIGNED_PAYLOAD",
    default_text="true",
    meaning="Leave the content of uploads out of their signature, as the AWS SDKs do. Applies to "
    "encrypted connections and to servers on this machine; the content is always signed for "
    "others. Set it to false if a bucket policy or the server requires signed content.",
    hint="Set it to true or false.",
)
AZURE_STORAGE_ENDPOINT = _endpoint(
    "AZURE_STORAGE_ENDPOINT", "Server to use for `az://` instead of Azure Blob Storage."
)
AZURE_ENDPOINT = _endpoint(
    "AZURE_ENDPOINT", "The same, used if `AZURE_STORAGE_ENDPOINT` is not set."
)
AZURE_ALLOW_HTTP = _allow_http("AZURE_ALLOW_HTTP", "AZURE_STORAGE_ENDPOINT")

STORAGE_SETTINGS: tuple[Setting[object], ...] = (
    SHARE,
    GCS_ENDPOINT,
    STORAGE_EMULATOR_HOST,
    AWS_ENDPOINT_URL_S3,
    AWS_ENDPOINT_URL,
    AWS_ALLOW_HTTP,
    AWS_UNSIGNED_PAYLOAD,
    AZURE_STORAGE_ENDPOINT,
    AZURE_ENDPOINT,
    AZURE_ALLOW_HTTP,
)


def shared_mode(private: int) -> int:
    """Permissions for a new file or folder: `private`, or the same for the group if shared.

    For files that others also write to. The objects of a store have their own modes.
    """
    is_shared = SHARE.read().value is Share.GROUP
    return private | (private & 0o700) >> 3 if is_shared else private
