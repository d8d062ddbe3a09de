"""Makes `fit` of a Keras model resumable, with the bits of a run that was never interrupted.

model = outlast.integrations.keras.durable(model, "gs://runs/tiny")
model.fit(x, y, epochs=10)
"""

from outlast.integrations.keras.fit import AlreadyDurable, durable

__all__ = ["AlreadyDurable", "durable"]
