"""`outlast lint` over 1,000 documents, beside PyYAML's C loader and a peer.

The peer is measured if it is on PATH. Its dependencies contradict ours, so install it apart:

    python -m venv /var/tmp/checkov && /var/tmp/checkov/bin/pip install checkov==3.3.30
    PATH="$PATH:/var/tmp/checkov/bin" python -m bench lint
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.measure import Row, interleaved, seconds_of, table

DOCUMENTS = 1000
FILES = 100
ROUNDS = 7
PEERS = {
    "checkov": [
        *("checkov", "--quiet", "--soft-fail", "--skip-download"),
        *("--framework", "kubernetes", "--directory"),
    ]
}

_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train-{n}
  namespace: team-{n}
  labels: {{app: train, run: "{n}"}}
spec:
  backoffLimit: 3
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    metadata:
      labels:
        app: train
    spec:
      # Spot nodes, with their taint.
      restartPolicy: Never
      nodeSelector:
        cloud.google.com/gke-spot: "true"
      tolerations:
        - key: cloud.google.com/gke-spot
          operator: Equal
          value: "true"
          effect: NoSchedule
      serviceAccountName: trainer
      terminationGracePeriodSeconds: 15
      containers:
        - name: train
          image: registry.example/trainer:1.{n}
          command: [python, train.py, --epochs, "12"]
          env:
            - name: CHECKPOINT_DIR
              value: gs://runs/train-{n}
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
          resources:
            requests: {{cpu: "8", memory: 48Gi}}
            limits:
              nvidia.com/gpu: 1
          volumeMounts:
            - name: data
              mountPath: /data
            - {{name: shm, mountPath: /dev/shm}}
      volumes:
        - name: data
          persistentVolumeClaim:
            claimName: data-{n}
        - name: shm
          emptyDir: {{medium: Memory, sizeLimit: 8Gi}}
"""
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: serve-{n}
  labels:
    app: serve
spec:
  replicas: 3
  selector:
    matchLabels: {{app: serve}}
  strategy:
    rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata:
      labels: {{app: serve}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: cloud.google.com/gke-spot
                    operator: DoesNotExist
      containers:
        - name: serve
          image: registry.example/serve@sha256:{n:064d}
          args:
            - --port=8080
            - --model=/models/tiny-{n}
          ports:
            - containerPort: 8080
              name: http
          readinessProbe:
            httpGet: {{path: /healthz, port: http}}
            periodSeconds: 5
          livenessProbe:
            tcpSocket: {{port: 8080}}
            initialDelaySeconds: 30
          env:
            - name: LOG_LEVEL
              value: info
            - name: TOKEN
              valueFrom:
                secretKeyRef: {{name: serve, key: token}}
          resources:
            requests: {{cpu: "2", memory: 8Gi}}
            limits: {{cpu: "4", memory: 8Gi}}
          securityContext:
            allowPrivilegeEscalation: false
            runAsNonRoot: true
            capabilities: {{drop: [ALL]}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {{matchLabels: {{app: serve}}}}
"""
_SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: serve-{n}
  annotations:
    cloud.google.com/neg: '{{"ingress": true}}'
spec:
  type: ClusterIP
  selector:
    app: serve
  ports:
    - name: http
      port: 80
      targetPort: 8080
      protocol: TCP
"""
_CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings-{n}
data:
  epochs: "12"
  learning-rate: "0.0003"
  train.py: |
    import os
    import outlast

    with outlast.Run(os.environ["CHECKPOINT_DIR"], state) as run:
        for step in run.steps(10_000):
            train_one_step(model, optimizer)
    export(model)
"""
_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data-{n}
spec:
  accessModes: [ReadOnlyMany]
  storageClassName: premium-rwo
  resources:
    requests:
      storage: 500Gi
"""
_TEMPLATES = (
    _JOB,
    _DEPLOYMENT,
    _SERVICE,
    _JOB,
    _DEPLOYMENT,
    _CONFIG,
    _JOB,
    _DEPLOYMENT,
    _CLAIM,
    _JOB,
)


def report() -> str:
    return table("Linting", rows())


def rows() -> list[Row]:
    outlast = str(Path(sys.executable).with_name("outlast"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "k8s"
        size = write_corpus(folder)
        one = folder / "file-000.yaml"
        cases = {
            "load": lambda: _load_seconds(folder),
            "lint": seconds_of([outlast, "lint", str(folder), "--fail-on", "never"]),
            "first": lambda: _first_finding_seconds(outlast, one),
        }
        for peer, command in PEERS.items():
            if shutil.which(peer):
                cases[peer] = seconds_of([*command, str(folder)])
        medians = interleaved(cases, rounds=ROUNDS)
    load = medians["load"]
    against = f"PyYAML's C loader, {load * 1000:.0f} ms"
    found = [
        Row(
            f"`outlast lint`, {DOCUMENTS:,} documents, {size / 1e6:.1f} MB, with schemas",
            f"{medians['lint'] / load:.2f} x ({medians['lint'] * 1000:.0f} ms)",
            against,
            "<= 4 x",
        ),
        Row(
            "start-up to the first finding, one file",
            f"{medians['first'] * 1000:.0f} ms",
            "",
            "<= 500 ms",
        ),
    ]
    found += [
        Row(f"{peer}, the same files", f"{medians[peer] / load:.2f} x", against)
        for peer in PEERS
        if peer in medians
    ]
    found += [
        Row(f"{peer}, the same files", "not measured", "not installed")
        for peer in PEERS
        if peer not in medians
    ]
    return found


def write_corpus(folder: Path) -> int:
    """Writes the documents and gives their size in bytes."""
    folder.mkdir(parents=True)
    per_file = DOCUMENTS // FILES
    total = 0
    for index in range(FILES):
        documents = [
            _TEMPLATES[n % len(_TEMPLATES)].format(n=index * per_file + n) for n in range(per_file)
        ]
        text = "---\n".join(documents)
        (folder / f"file-{index:03}.yaml").write_text(text)
        total += len(text)
    return total


def _load_seconds(folder: Path) -> float:
    started = time.perf_counter()
    for path in sorted(folder.iterdir()):
        for _ in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
            pass
    return time.perf_counter() - started


def _first_finding_seconds(outlast: str, path: Path) -> float:
    # Users keep their compiled modules, so the measurement does too.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [outlast, "lint", str(path)]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, text=True
    ) as process:
        assert process.stdout is not None
        assert "OL" in process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
    return seconds
