"""Values to render the chart with: every example, and every value that an example leaves alone."""

from __future__ import annotations

import yaml

from tests.deploy.chart import EXAMPLES, Object

_MONITOR: Object = {
    "enabled": True,
    "namespace": "prometheus",
    "annotations": {"team": "gpus"},
    "labels": {"release": "prometheus"},
    "relabelings": [{"action": "labeldrop", "regex": "x"}],
    "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "process_.*"}],
    "sampleLimit": 5000,
    "attachMetadata": {"node": True},
    "tlsConfig": {
        "cert": {"secret": {"name": "prometheus", "key": "tls.crt"}},
        "keySecret": {"name": "prometheus", "key": "tls.key"},
    },
    "basicAuth": {
        "username": {"name": "prometheus", "key": "user"},
        "password": {"name": "prometheus", "key": "password"},
    },
}

VALUE_SETS: dict[str, Object] = {
    "default": {},
    **{path.stem: yaml.safe_load(path.read_text()) for path in EXAMPLES},
    "older-gpus": {"driver": {"sysAdmin": True}},
    "all-names": {
        "fullnameOverride": "x" * 63,
        "namespaceOverride": "gpus",
        "image": {"digest": "sha256:" + 64 * "0"},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"create": False, "name": "other"},
    },
    "everything": {
        "cluster": "north",
        "commonLabels": {"team": "gpus"},
        "kubernetes": {
            "metadata": True,
            "extraRules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
        },
        "state": {"hostPath": "/var/lib/ofu-exporter"},
        "env": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "reports": {
            "tokenSecret": "tokens",
            "podTokens": True,
            "nodeService": True,
            "socketHostPath": "/run/ofu-exporter",
        },
        "tls": {"secret": "certificate"},
        "service": {"labels": {"team": "gpus"}, "annotations": {"team": "gpus"}},
        "podMonitor": _MONITOR,
        "prometheusRule": {
            "enabled": True,
            "namespace": "prometheus",
            "labels": {"release": "prometheus"},
            "additionalRuleLabels": {"team": "gpus"},
            "target": 0.35,
        },
        "dashboards": {
            "enabled": True,
            "namespace": "grafana",
            "annotations": {"grafana_folder": "GPUs"},
            "grafanaOperator": {"enabled": True, "folder": "GPUs"},
        },
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {}}],
            "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
        },
    },
    "report": {
        "imagePullSecrets": [{"name": "registry"}],
        "fleetReport": {
            "enabled": True,
            "prometheus": "http://prometheus.monitoring:9090",
            "prices": {"currency": "EUR", "gpu_hour": {"*H100*": 2.1}},
            "extraArgs": ["--by", "account"],
            "env": [
                {
                    "name": "OFU_EXPORTER_PROMETHEUS_TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "prometheus", "key": "token"}},
                }
            ],
            "storageClassName": "fast",
            "resources": {"limits": {"memory": "512Mi"}},
            "nodeSelector": {"pool": "small"},
            "tolerations": [{"operator": "Exists"}],
        },
    },
    "report-into-a-claim": {
        "fleetReport": {
            "enabled": True,
            "prometheus": "http://prometheus:9090",
            "existingClaim": "pages",
        },
    },
    "slurm-in-pods": {
        "kubernetes": {"cdiPath": "/var/run/cdi"},
        "slurm": {
            "jobsHostPath": "/run/ofu-exporter/jobs",
            "jobMapHostPath": "/var/run/nebius/slurm",
        },
    },
    "traces": {
        "kubernetes": {"metadata": True},
        "traces": {"hostPath": "/var/lib/ofu-traces"},
        "prometheusRule": {"enabled": True},
    },
    "pods": {
        "global": {"imageRegistry": "registry.example.com", "imagePullSecrets": ["registry"]},
        "hostNetwork": True,
        "hostPID": True,
        "minReadySeconds": 5,
        "revisionHistoryLimit": 3,
        "terminationGracePeriodSeconds": 20,
        "daemonsetAnnotations": {"team": "gpus"},
        "podAnnotations": {"team": "gpus"},
        "podLabels": {"team": "gpus"},
        "nodeSelector": {"pool": "gpus"},
        "startupProbe": {"failureThreshold": 30},
        "envFrom": [{"configMapRef": {"name": "settings", "optional": True}}],
        "initContainers": [{"name": "wait", "image": "busybox", "command": ["true"]}],
        "sidecars": [{"name": "beside", "image": "busybox", "command": ["sleep", "infinity"]}],
        "extraArgs": ["--log-format=json"],
        "extraManifests": [
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-text\n",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "object"}},
        ],
    },
    "closed": {
        "tls": {"secret": "certificate", "clientCaSecret": "authorities"},
        "webConfig": {"secret": "users"},
    },
    "nothing-more": {
        "affinity": None,
        "tolerations": [],
        "driver": {"runtimeClassName": ""},
        "kubernetes": {"podResources": False},
        "tests": {"enabled": False},
    },
}
VALUE_SETS["service-monitor"] = {
    **VALUE_SETS["everything"],
    "podMonitor": {**_MONITOR, "enabled": False},
    "serviceMonitor": {"enabled": True},
}
MONITORS = {"PodMonitor": "everything", "ServiceMonitor": "service-monitor"}
"""Sets of values with all that a monitor takes, by its kind: the chart makes one of the two."""
