#!/usr/bin/env python3
"""weft-launch lint: mistakes put into good manifests, one at a time, are found with their line, and nothing else is; correct jobs raise nothing.

    lint_test.py WEFT_LAUNCH PROJECT
"""
import json
import pathlib
import re
import subprocess
import sys

LAUNCH, PROJECT = sys.argv[1], pathlib.Path(sys.argv[2])
BASE = PROJECT / "launchers" / "kubernetes" / "base"
SHAPES = PROJECT / "tests" / "launch" / "shapes"
MPI, SET, RUNTIME, TRAIN, JOB, SERVICE = (BASE / name for name in (
    "mpijob/mpijob.yaml", "jobset/jobset.yaml", "trainer/runtime.yaml", "trainer/trainjob.yaml", "indexed-job/job.yaml", "indexed-job/service.yaml"))

# The file, the words that are replaced (the first time they stand there), by what, the cause that is found, and words of the line it names. Where
# these stand several times, a number says which.
SEEDS = [
    (MPI, "launcherCreationPolicy: WaitForWorkersReady  # else the launcher starts before names of workers resolve", "launcherCreationPolicy: AtStartup",
     "launcher-early", "launcherCreationPolicy: AtStartup"),
    (MPI, "  launcherCreationPolicy: WaitForWorkersReady  # else the launcher starts before names of workers resolve\n", "", "launcher-early", "spec:"),
    (MPI, "  runPolicy:\n", "  cleanPodPolicy: Running\n  runPolicy:\n", "v1-field", "cleanPodPolicy"),
    (MPI, "  slotsPerWorker: 8\n", "  slotsPerWorker: 8\n  backoffLimit: 3\n", "v1-field", "backoffLimit"),
    (MPI, "mpiImplementation: OpenMPI", "mpiImplementation: openmpi", "mpi-implementation", "openmpi"),
    (MPI, "kubeflow.org/v2beta1", "kubeflow.org/v1", "v2-field", "sshAuthMountPath"),
    (MPI, "kubeflow.org/v2beta1", "kubeflow.org/v1alpha2", "old-version", "apiVersion", 1, "v2-field"),
    (MPI, "kubeflow.org/v2beta1", "kubeflow.org/v3", None, None),
    (MPI, '- "16"', '- "8"', "ranks-mismatch", '- "8"'),
    (MPI, "- ppr:8:node", "- ppr:4:node", "ranks-mismatch", "ppr:4"),
    (MPI, "            - none\n", "            - core\n", "bound-to-core", "- core"),
    (MPI, "              runAsUser: 1000\n            command:\n            - mpirun", "              runAsUser: 0\n            command:\n            - mpirun", "root-refused", "- mpirun"),
    (MPI, "  sshAuthMountPath: /home/mpiuser/.ssh\n", "", "ssh-keys", "securityContext:", 2),
    (MPI, 'sidecar.istio.io/inject: "false"', 'sidecar.istio.io/inject: "true"', "istio-sidecar", 'inject: "true"'),
    (MPI, 'sidecar.istio.io/inject: "false"', "sidecar.istio.io/inject: false", "not-text", "inject: false"),
    (MPI, "--mca  # MPI's own messages are few and small: plain TCP, and no search for something faster\n            - pml\n            - ob1\n            - --mca\n            - btl\n            - tcp,vader,self\n            - ",
     "", "mpi-transport", "- mpirun"),
    (MPI, "            readinessProbe:", "            env:\n            - name: NCCL_DEBUG\n              value: INFO\n            readinessProbe:", "not-exported", "NCCL_DEBUG"),
    (MPI, "            - -x\n            - WEFT_TIMEOUT\n", "", "not-exported", "- name: WEFT_TIMEOUT"),
    (MPI, "              limits:\n                memory: 1Gi", "              limits:\n                nvidia.com/gpu: 1\n                memory: 1Gi", "launcher-gpus", "nvidia.com/gpu: 1", 1, "shm"),
    (MPI, "      replicas: 2\n      restartPolicy: Never", "      replicas: 2\n      restartPolicy: OnFailure", "worker-restarts", "OnFailure"),
    (MPI, "  name: weft\n", "  name: weft-with-a-name-that-says-all-of-what-it-is-for-and-when-it-ran\n", "name-long", "name: weft-with"),
    (MPI, "  name: weft\n", "  name: Weft_Job\n", "name-form", "Weft_Job"),
    (MPI, "              capabilities:\n                add:\n                - IPC_LOCK\n", "", "ipc-lock-missing", "rdma/shared", 2, "rdma/ib", "rdma/shared"),
    (MPI, "- IPC_LOCK", "- CAP_IPC_LOCK", "capability-name", "CAP_IPC_LOCK"),
    (MPI, "            - name: dshm\n              mountPath: /dev/shm\n", "", "shm-missing", "volumeMounts:", 1, "volume-unused"),
    (MPI, "              medium: Memory\n", "", "shm-on-disk", "emptyDir:"),
    (MPI, "sizeLimit: 64Gi", "sizeLimit: 960Gi", "shm-over-memory", "sizeLimit"),
    (MPI, "sizeLimit: 64Gi", "sizeLimit: 64Mi", "shm-small", "sizeLimit"),
    (MPI, "            - name: topology\n              mountPath", "            - name: topologie\n              mountPath", "volume-missing", "topologie", 1, "volume-unused"),
    (MPI, "              limits:\n                memory: 960Gi\n                nvidia.com/gpu: 8\n", "              limits:\n                memory: 960Gi\n                nvidia.com/gpu: 4\n",
     "device-limit", "nvidia.com/gpu: 8", 1, "slots-mismatch"),
    (MPI, "slotsPerWorker: 8", "slotsPerWorker: 4", "slots-mismatch", "slotsPerWorker: 4", 1, "ranks-mismatch"),
    (MPI, "            lifecycle:\n              preStop:  # sshd is process 1 and gets SIGTERM; this tells the ranks before\n                exec:\n                  command:\n                  - /opt/weft/kubernetes/notice.sh\n",
     "", "no-notice", "terminationGracePeriodSeconds"),
    (MPI, "              subPath: nccl.conf\n", "", "nccl-conf", "mountPath: /etc/nccl.conf"),
    (MPI, "mountPath: /etc/nccl.conf\n", "mountPath: /etc/conf/nccl.conf\n", "nccl-conf", "mountPath: /etc/conf"),
    (MPI, "              mountPath: /etc/nccl\n", "              mountPath: /etc\n", "hides-etc", "mountPath: /etc", 2),
    (MPI, "    backoffLimit: 3\n", "    backoffLimit: 3\n    suspend: true\n", "suspended", "suspend: true"),
    (MPI, "          terminationGracePeriodSeconds: 120\n", "          terminationGracePeriodSeconds: 120\n          hostNetwork: true\n", None, None),
    (SET, "publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "names-late", "publishNotReadyAddresses"),
    (SET, "enableDNSHostnames: true", "enableDNSHostnames: false", "names-off", "enableDNSHostnames"),
    (SET, "weft-node-0-0.weft:29500", "weft-node-0.weft:29500", "meeting-place", "weft-node-0.weft"),
    (SET, "weft-node-0-0.weft:29500", "localhost:29500", "meeting-place", "localhost"),
    (SET, "weft-node-0-0.weft:29500", "weft-node-0-0.weft:295000", "port", "295000"),
    (SET, '- "2"  # as completions', '- "4"', "nodes-mismatch", '- "4"'),
    (SET, '            - "8"\n', '            - "4"\n', "ranks-mismatch", '- "4"', 1),
    (SET, "completions: 2", "completions: 4", "ranks-missing", "completions: 4", 1, "nodes-mismatch"),
    (SET, "backoffLimit: 0", "backoffLimit: 6", "backoff-limit", "backoffLimit"),
    (SET, "restartPolicy: Never  # podFailurePolicy needs it", "restartPolicy: OnFailure", "policy-restart", "OnFailure"),
    (SET, "              - 42\n", "              - 41\n", "policy-42", "        podFailurePolicy:"),
    (SET, "              - 42\n", "              - 42\n              - 75\n", "policy-75", "action: FailJob", 2),
    (SET, "containerName: node", "containerName: rank", "policy-container", "containerName"),
    (SET, "name: WEFT_CONNECT_TIMEOUT", "name: WEFT_CONECT_TIMEOUT", "weft-variable", "WEFT_CONECT"),
    (SET, 'value: "600"', 'value: "10m"', "weft-value", "10m"),
    (SET, 'value: "600"', "value: 600", "not-text", "value: 600"),
    (SET, "- name: WEFT_CONNECT_TIMEOUT", "- name: WEFT_TOKEN2", "weft-variable", "WEFT_TOKEN2"),
    (SET, "- name: WEFT_TOKEN\n", "- name: HF_TOKEN\n", "token-missing", "as completions"),
    (SET, '- "8"\n', "- 8\n", "not-text", "- 8"),
    *[(JOB, "  completions: 2\n", f"  completions: {word}\n", "no-count", "completions: ") for word in
      ("99999999999999999999999", ".nan", "-.inf", "1.5", "two", '"2"', "[2]", "-1", "3000000000", "1e999")],
    *[(JOB, "  backoffLimit: ", f"  backoffLimit: {word} # ", "no-count", "backoffLimit: ") for word in ("99999999999999999999999", ".nan")],
    *[(MPI, "slotsPerWorker: 8", f"slotsPerWorker: {word}", "no-count", "slotsPerWorker: ") for word in ("99999999999999999999999", ".nan", "1.5")],
    *[(MPI, "      replicas: 2\n", f"      replicas: {word}\n", "no-count", f"replicas: {word}") for word in ("99999999999999999999999", ".nan")],
    *[(JOB, "  parallelism: 2\n", f"  parallelism: {word}\n", "no-count", "parallelism: ") for word in ("99999999999999999999999", ".nan", "-1")],
    (SET, "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 0", "grace-short", "terminationGrace"),
    (SET, "terminationGracePeriodSeconds: 120", 'nodeSelector: {cloud.google.com/gke-spot: "true"}\n            terminationGracePeriodSeconds: 120', "grace-long", "terminationGracePeriodSeconds"),
    (SET, "                    command:\n                    - /opt/weft/kubernetes/notice.sh", '                    command: [sh, -c, "sleep 300"]', "grace-short", "preStop"),
    (SET, "completionMode: Indexed\n", "completionMode: Indexed\n        backoffLimit: 0\n", "key-twice", "backoffLimit: 0", 2),
    (SET, "              - /opt/weft/bin/weft-launch\n              args:\n", "              - sh\n              - -c\n              - |\n                cd /data\n                /opt/weft/bin/weft-launch -n 8 /trainer\n              args:\n", None, None),
    (SET, "  name: weft\n", "  name: weft\n  annotations:\n    kueue.x-k8s.io/queue-name: gpu\n", "queue-place", "queue-name"),
    (JOB, "completionMode: Indexed", "completionMode: NonIndexed", "completion-mode", "completionMode"),
    (JOB, "  completionMode: Indexed\n", "", "completion-mode", "completions: 2"),
    (JOB, "      subdomain: weft  # the Service below gives pods a name: weft-0.weft\n", "", "subdomain-missing", "- weft-0.weft:29500"),
    (JOB, "      subdomain: weft ", "      subdomain: pods ", "service-missing", "subdomain", 1, "meeting-place"),
    (JOB, "restartPolicy: Never  # podFailurePolicy needs it", "restartPolicy: Always", "policy-restart", "Always", 1, "restart-policy"),
    (JOB, "backoffLimit: 40", "backoffLimit: 0", "backoff-limit", "backoffLimit"),
    (JOB, "    - action: FailJob  # 42: wrong usage or input; again it would be wrong again", "    - action: Ignore", "policy-42", "action: Ignore", 1),
    (JOB, "  template:\n", "  podReplacementPolicy: TerminatingOrFailed\n  template:\n", "policy-replacement", "podReplacementPolicy"),
    (JOB, "batch/v1", "batch/v1beta1", "old-version", "apiVersion"),
    (JOB, "      terminationGracePeriodSeconds", "      hostNetwork: true\n      terminationGracePeriodSeconds", "host-network", "hostNetwork"),
    (SERVICE, "clusterIP: None", "type: ClusterIP", "service-not-headless", "spec:"),
    (SERVICE, "  publishNotReadyAddresses: true  # ranks meet before a pod is ready\n", "", None, None),
    (SHAPES / "indexed-job.yaml", "  publishNotReadyAddresses: true\n", "", "names-late", "spec:", 1, "        command: [/trainer]\n",
     "        command: [/trainer]\n        readinessProbe: {tcpSocket: {port: 29500}}\n"),
    (SERVICE, "job-name: weft", "job-name: wheft", "service-selector", "wheft"),
    (RUNTIME, "- name: node\n                  image", "- name: trainer\n                  image", "trainer-container", "- name: trainer", 1, "policy-container"),
    (RUNTIME, "trainer.kubeflow.org/trainjob-ancestor-step: trainer", "step: trainer", "trainer-step", "replicatedJobs:"),
    (TRAIN, "  trainer:\n", "  podTemplateOverrides: []\n  trainer:\n", "trainer-overrides", "podTemplateOverrides"),
    (TRAIN, "    name: weft\n", "", "trainer-runtime", "runtimeRef"),
    (SHAPES / "mpi-infiniband.yaml", "-np 32", "-np 64", "ranks-mismatch", "mpirun"),
    (SHAPES / "mpi-infiniband.yaml", "                - name: OMPI_ALLOW_RUN_AS_ROOT_CONFIRM\n                  value: \"1\"\n", "", "root-refused", "OMPI_ALLOW_RUN_AS_ROOT"),
    (SHAPES / "mpi-roce.yaml", "-bind-to none", "-bind-to core", "bound-to-core", "-bind-to core"),
    (SHAPES / "mpi-hostnetwork.yaml", ', -p, "2222"', "", "host-network", "hostNetwork", 2),
    (SHAPES / "mpi-hostnetwork.yaml", "            securityContext: {privileged: true}\n", "            env: [{name: NCCL_IB_HCA, value: mlx5}]\n", "not-exported", "NCCL_IB_HCA"),
    (SHAPES / "mpi-intel.yaml", "mpiImplementation: Intel", "mpiImplementation: IntelMPI", "mpi-implementation", "IntelMPI"),
    (SHAPES / "jobset-torchrun.yaml", "--nnodes=4", "--nnodes=3", "nodes-mismatch", "torchrun --rdzv"),
    (SHAPES / "jobset-torchrun.yaml", "              - name: RANK\n", "              - name: WEFT_RENDEZVOUS\n                value: tcp://pytorch-workers-0-0.pytorch:29501\n              - name: RANK\n", None, None),
    (SHAPES / "jobset-torchrun.yaml", "--master_port=$MASTER_PORT", "--master_port=3389", None, None),
    (SHAPES / "jobset-torchrun.yaml", "              - name: RANK\n", "              - name: WEFT_RENDEZVOUS\n                value: tcp://pytorch-workers-0-0.pytorch:3389\n              - name: RANK\n",
     "port-twice", "value: tcp://", 1, "--master_port=$MASTER_PORT", "--master_port=3389"),
    (SHAPES / "indexed-job.yaml", "        - {name: WEFT_SIZE, value: \"4\"}\n", "", "weft-half", "name: WEFT_RANK"),
    (SHAPES / "indexed-job.yaml", "defaultMode: 0400", "defaultMode: 400", "token-mode", "defaultMode"),
    (SHAPES / "indexed-job.yaml", "{name: WEFT_TOKEN_FILE, value: /run/token/token}", "{name: WEFT_TOKEN, value: 0b5e12f09d7c31aa}", "token-shown", "WEFT_TOKEN"),
    (SHAPES / "indexed-job.yaml", "tcp://train-0.trainers.default.svc.cluster.local:29500", "file:///shared/ranks", "meeting-place", "file://"),
    (SHAPES / "trainer-mpi.yaml", "mpiImplementation: OpenMPI", "mpiImplementation: Intel", "trainer-mpi", "Intel"),
    (SHAPES / "trainer-mpi.yaml", "{runAsUser: 1000}\n                  command", "{runAsUser: 1000}\n                  env: [{name: OMPI_MCA_plm_rsh_args, value: \"-p 22\"}]\n                  command",
     "trainer-variable", "OMPI_MCA_plm_rsh_args"),
    (MPI, "            - -x\n            - WEFT_TIMEOUT\n", "            - -x\n            - NCCL_IB_HCA=mlx5\n            - -x\n            - WEFT_TIMEOUT\n",
     "rdma-missing", "NCCL_IB_HCA=mlx5", 1, "                rdma/ib: 1\n", ""),
    (MPI, "              limits:\n                memory: 1Gi", "              limits:\n                rdma/ib: 1\n                memory: 1Gi", "rdma-unused", "rdma/ib: 1"),
    (MPI, "            fsGroup: 1000\n          containers:\n          - name: worker", "            fsGroup: 1000\n            capabilities: {add: [IPC_LOCK]}\n          containers:\n          - name: worker",
     "capability-place", "capabilities: {add"),
    (MPI, "          volumes:\n", "          volumes:\n          - name: scratch\n            emptyDir: {}\n", "volume-unused", "scratch"),
    (SET, "              - 42\n", "              - 0\n", "policy-zero", "- 0", 1, "policy-42"),
    (SHAPES / "mpi-pi.yaml", "            args: [-De, -f, /home/mpiuser/.sshd_config]", "            args: -De", "not-a-list", "args: -De"),
    (SHAPES / "mpi-pi.yaml", "  name: pi\n", '  name: pi\n  annotations: {sidecar.istio.io/inject: "false"}\n', "istio-sidecar", "sidecar.istio.io"),
    (SHAPES / "indexed-job.yaml", "command: [/trainer]", 'command: [sh, -c, "cd /data; weft-launch -n 1 /trainer"]', "shell-first", "command:"),
    (SHAPES / "mpi-v1.yaml", "cleanPodPolicy: Running", "backoffLimit: 3", "v1-field", "backoffLimit"),
    (SHAPES / "mpi-v1.yaml", "slotsPerWorker: 1", "slotsPerWorker: 4", "slots-mismatch", "slotsPerWorker", 1, "ranks-mismatch"),
    (SHAPES / "mpi-v1.yaml", "            image: horovod/horovod:0.28.1\n            command", "            image: horovod/horovod:0.28.1\n            env: [{name: NCCL_DEBUG, value: INFO}]\n            command",
     "not-exported", "NCCL_DEBUG"),
    (SHAPES / "pytorchjob.yaml", "kubeflow.org/v1", "kubeflow.org/v1beta2", "old-version", "apiVersion"),
    (SHAPES / "pytorchjob.yaml", "  runPolicy:\n    cleanPodPolicy: None\n", "  cleanPodPolicy: None\n", "field-place", "cleanPodPolicy"),
    (SHAPES / "pytorchjob.yaml", "  nprocPerNode:", "  nProcPerNode:", "field-place", "nProcPerNode"),
    (SHAPES / "pytorchjob.yaml", 'nprocPerNode: "8"', "nprocPerNode: 8", "not-text", "nprocPerNode"),
    (SHAPES / "pytorchjob.yaml", 'nprocPerNode: "8"', 'nprocPerNode: "4"', "ranks-mismatch", "nprocPerNode"),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[torchrun, --nnodes=4, /app", "nodes-mismatch", "--nnodes=4"),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[torchrun, --nproc-per-node=4, /app", "ranks-mismatch", "--nproc-per-node=4"),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[python, -m, torch.distributed.launch, --nproc_per_node, '2', /app", "ranks-mismatch", "nproc_per_node"),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[accelerate, launch, --num_machines, '2', --num_processes, '8', /app", "ranks-mismatch", "num_processes"),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[accelerate, launch, --num_machines, '2', --num_processes, '16', /app", None, None),
    (SHAPES / "pytorchjob.yaml", "[torchrun, /app", "[deepspeed, --num_gpus, '4', /app", "ranks-mismatch", "num_gpus"),
    (SHAPES / "pytorchjob.yaml", "- name: pytorch", "- name: trainer", "operator-container", "- name: trainer"),
    (SHAPES / "pytorchjob.yaml", "    Master:\n      replicas: 1", "    Master:\n      replicas: 2", "master-replicas", "replicas: 2"),
    (SHAPES / "pytorchjob.yaml", "    Master:\n", "    Launcher:\n", "replica-type", "Launcher"),
    (SHAPES / "pytorchjob.yaml", "  runPolicy:\n", "  elasticPolicy:\n    minReplicas: 1\n  runPolicy:\n", "elastic-master", "Master:"),
    (SHAPES / "pytorchjob.yaml", "    cleanPodPolicy: None\n", "    cleanPodPolicy: None\n    suspend: true\n", "suspended", "suspend"),
    (SHAPES / "pytorchjob-elastic.yaml", "  elasticPolicy:\n", '  nprocPerNode: "1"\n  elasticPolicy:\n    nProcPerNode: 1\n', "processes-twice", "    nProcPerNode: 1"),
    (SHAPES / "pytorchjob-elastic.yaml", "minReplicas: 2", "minReplicas: 3", "elastic-replicas", "replicas: 2"),
    (SHAPES / "pytorchjob-elastic.yaml", "minReplicas: 2", "minReplicas: 5", "elastic-replicas", "minReplicas: 5"),
    (SHAPES / "pytorchjob-elastic.yaml", "      replicas: 2", "      replicas: 6", "elastic-replicas", "replicas: 6"),
    (SHAPES / "pytorchjob-elastic.yaml", "    Worker:\n", "    Master:\n", "elastic-replicas", "elasticPolicy", 1, "elastic-master", "      replicas: 2", "      replicas: 1"),
    (SHAPES / "pytorchjob-elastic.yaml", "  elasticPolicy:\n    rdzvBackend: c10d\n    minReplicas: 2\n    maxReplicas: 4\n    maxRestarts: 100\n", "", "no-master", "Worker:"),
    (SHAPES / "pytorchjob-elastic.yaml", "[{name: LOGLEVEL, value: DEBUG}]", "[{name: PET_NPROC_PER_NODE, value: '2'}]", "ranks-mismatch", "PET_NPROC"),
    (SHAPES / "volcano-mpi.yaml", "minAvailable: 3", "minAvailable: 4", "gang-size", "minAvailable"),
    (SHAPES / "volcano-mpi.yaml", "  - replicas: 2\n", "  - replicas: 2\n    minAvailable: 3\n", "gang-size", "    minAvailable: 3"),
    (SHAPES / "volcano-mpi.yaml", "    name: mpiworker\n", "    name: mpimaster\n", "task-twice", "name: mpimaster", 3, "plugin-task"),
    (SHAPES / "volcano-mpi.yaml", "--master=mpimaster", "--master=master", "plugin-task", "mpi:"),
    (SHAPES / "volcano-mpi.yaml", "mpiworker.host", "worker.host", "plugin-task", "worker.host"),
    (SHAPES / "volcano-mpi.yaml", '    svc: []\n    mpi: ["--master=mpimaster", "--worker=mpiworker", "--port=22"]\n', "", "plugin-missing", "mpiworker.host"),
    (SHAPES / "leader-worker.yaml", "    size: 2\n", "    size: 0\n", "group-size", "size: 0", 1, "ranks-mismatch"),
    (SHAPES / "leader-worker.yaml", "    size: 2\n", "    size: 4\n    subGroupPolicy: {subGroupSize: 5}\n", "group-size", "subGroupPolicy"),
    (SHAPES / "leader-worker.yaml", "RecreateGroupOnPodRestart", "OnFailure", "group-restart", "OnFailure"),
    (SHAPES / "leader-worker.yaml", "    workerTemplate:\n      spec:\n", "    workerTemplate:\n      spec:\n        restartPolicy: Never\n", "restart-policy", "Never"),
    (SHAPES / "leader-worker.yaml", "  leaderWorkerTemplate:\n    size: 2\n", "  size: 2\n  leaderWorkerTemplate:\n", "field-place", "size: 2", 1, "ranks-mismatch"),
    (SHAPES / "leader-worker.yaml", "    workerTemplate:\n", "    template:\n", "group-template", "leaderWorkerTemplate", 1, "ranks-mismatch"),
    (SHAPES / "leader-worker.yaml", "--tensor-parallel-size 8", "--tensor-parallel-size 16", "ranks-mismatch", "multi-node-serving.sh leader"),
    (SHAPES / "rayjob.yaml", "  shutdownAfterJobFinishes: true\n", "", "ray-shutdown", "ttlSecondsAfterFinished"),
    (SHAPES / "rayjob.yaml", "  shutdownAfterJobFinishes: true\n  ttlSecondsAfterFinished: 600\n", "  suspend: true\n", "ray-shutdown", "suspend", 1, "suspended"),
    (SHAPES / "rayjob.yaml", "  entrypoint: python train.py\n", "", "ray-entrypoint", "spec:"),
    (SHAPES / "rayjob.yaml", "  entrypoint: python train.py\n", "  submissionMode: InteractiveMode\n  backoffLimit: 2\n", "ray-again", "backoffLimit"),
    (SHAPES / "rayjob.yaml", "  rayClusterSpec:\n", "  rayClusterConfig:\n", "ray-cluster", "spec:"),
    (SHAPES / "rayjob.yaml", "      minReplicas: 1\n", "      minReplicas: 3\n", "ray-replicas", "minReplicas: 3"),
    (SHAPES / "rayjob.yaml", "      replicas: 2\n", "      replicas: 4\n", "ray-replicas", "replicas: 4"),
    (SHAPES / "rayjob.yaml", 'num-gpus: "4"', 'num-gpus: "8"', "ranks-mismatch", "num-gpus: \"8\""),
    (SHAPES / "rayjob.yaml", 'num-gpus: "4"', "num-gpus: 4", "not-text", "num-gpus: 4"),
    (SHAPES / "trainer-trainjob.yaml", "numProcPerNode: 4", "numProcPerNode: 8", "ranks-mismatch", "numProcPerNode"),
    (SHAPES / "trainer-trainjob.yaml", "name: NCCL_DEBUG, value: INFO", "name: PET_NNODES, value: '2'", "trainer-variable", "PET_NNODES"),
    (SHAPES / "trainer-trainjob.yaml", "    resourcesPerNode:\n      limits: {nvidia.com/gpu: 4}\n", "", "ranks-mismatch", "numProcPerNode", 1,
     "                  image: pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime\n",
     "                  image: pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime\n                  resources: {limits: {nvidia.com/gpu: 2}}\n"),
    (SHAPES / "work-queue.yaml", "        restartPolicy: OnFailure\n", "", "restart-policy", "spec:", 2),
]

# What is no manifest: status 42, and one line that says where.
REFUSED = [
    ("a: b: c\n", "bad.yaml line 1: this is not YAML: "),
    ("spec:\n  args: [1, 2\nkind: Job\n", "this is not YAML: "),
    ("apiVersion: v1\nkind: Job\n\tname: x\n", "bad.yaml line 3: this is not YAML: "),
    ("apiVersion: v1\nkind: {{ .Values.kind }}\n", "bad.yaml line 2: a key that is no word"),
    ("just words\n", "bad.yaml line 1: no manifest: "),
    ("- a\n- b\n", "no manifest: "),
    ("bases:\n- ../base\n", "bad.yaml line 1: no manifest: "),
    ("", "bad.yaml"),
    ("# nothing\n---\n", "there is no object of Kubernetes in it"),
    ("\x00\x01\x02", "bad.yaml"),
    ("apiVersion: v1\nkind: &x [*x]\n", "nested more than 64 deep"),
    ("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e]\n", "more than 200,000 values"),
]

failures = 0


def fail(line):
    global failures
    failures += 1
    print("FAILED:", line)


def lint(files, *options):
    made = subprocess.run([LAUNCH, "lint", *map(str, files), "--json", "-", *options], capture_output=True, text=True, errors="replace")
    findings = json.loads(made.stdout)["findings"] if made.stdout else []
    return made, [(one["cause"], one["evidence"][0]["line"], one["severity"]) for one in findings]


def line_with(text, words, number):
    found = [index + 1 for index, line in enumerate(text.splitlines()) if words in line]
    return found[number - 1] if len(found) >= number else None


def seeded(work, seed):
    file, old, new, cause, words, *rest = seed
    number = rest.pop(0) if rest and isinstance(rest[0], int) else 1
    beside = [rest.pop(0)] if len(rest) in (1, 3) else []
    text = file.read_text()
    if rest:
        text = text.replace(rest[0], rest[1])
    if cause is not None and old not in text:
        fail(f"{file.name}: there is no {old!r}")
        return False
    changed = text.replace(old, new, 1)
    at = work / file.name
    at.write_text(changed)
    files = {JOB: [at, SERVICE], SERVICE: [at, JOB]}.get(file, [at])
    made, found = lint(files)
    if cause is None:
        if found or made.returncode != 0:
            fail(f"{file.name}, {new[:60]!r}: {found} in what is right\n{made.stderr}")
        return False
    line = line_with(changed, words, number)
    mine = [one for one in found if one[0] == cause and one[1] == line]
    others = [one for one in found if one[0] != cause and one[0] not in beside]
    if not mine or others or made.returncode not in (1, 2):
        fail(f"{file.name}, {cause} on line {line} ({words}): status {made.returncode}, found {found}\n{made.stderr}")
    return True


def main(work):
    count = sum(seeded(work, seed) for seed in SEEDS)
    if count < 40:
        fail(f"{count} seeded mistakes")
    causes, only_told = set(), set()
    for source in (PROJECT / "tools" / "weft-launch" / "manifest" / "rules").glob("*_rules.cpp"):
        for call, cause in re.findall(r'remarks\.(add|warn|critical|notice)\(\s*(?:[^;"]*?,\s*)?"([a-z0-9-]+)"', source.read_text()):
            (only_told if call == "notice" else causes).add(cause)
    page = (PROJECT / "docs" / "kubernetes.md").read_text()
    for cause in sorted(causes | only_told):
        if cause in causes and cause not in {seed[3] for seed in SEEDS}:
            fail(f"no mistake is seeded for {cause}")
        if f"`{cause}`" not in page:
            fail(f"docs/kubernetes.md does not know {cause}")
    good = sorted(SHAPES.glob("*.yaml"))
    good = [[file] for file in good] + [[MPI], [SET], [RUNTIME, TRAIN], [JOB, SERVICE]]
    for files in good:
        made, found = lint(files)
        if found or made.returncode != 0:
            fail(f"{files}: {found}\n{made.stderr}")
    for text, words in REFUSED:
        at = work / "bad.yaml"
        at.write_text(text)
        made, found = lint([at])
        if made.returncode != 42 or words not in made.stderr or len(made.stderr.splitlines()) != 1:
            fail(f"{text[:30]!r}: status {made.returncode}, {made.stderr!r}")
    usage(work)
    print(f"{count} seeded mistakes, {len(good)} correct jobs, {len(causes)} causes, {len(REFUSED)} files that are no manifest; {failures} failed")


def usage(work):
    def run(arguments, text=None):
        return subprocess.run([LAUNCH, "lint", *map(str, arguments)], capture_output=True, text=True, input=text)
    for arguments, words in (([], "the manifest is missing"), (["/no/such.yaml"], "/no/such.yaml"), ([JOB, JOB], "is given twice"),
                             (["--notice", JOB], "--notice"), ([work], str(work))):
        made = run(arguments)
        if made.returncode != 42 or words not in made.stderr:
            fail(f"lint {arguments}: status {made.returncode}, {made.stderr!r}")
    made = run(["-"], MPI.read_text().replace("openmpi", "x").replace("OpenMPI", "openmpi"))
    if made.returncode != 2 or "-:8: critical: mpiImplementation is openmpi" not in made.stdout or "fix: OpenMPI" not in made.stdout:
        fail(f"standard input: {made.returncode}\n{made.stdout}{made.stderr}")
    made = run(["--notices", SHAPES / "mpi-infiniband.yaml"])
    if made.returncode != 0 or "notice: the launcher starts beside the workers" not in made.stdout:
        fail(f"--notices: {made.returncode}\n{made.stdout}{made.stderr}")
    made = run(["--notices", "-"], MPI.read_text().replace('                cpu: "96"\n', ""))
    if made.returncode != 0 or "notice: a container of 8 GPUs asks for no processors" not in made.stdout:
        fail(f"a notice of processors: {made.returncode}\n{made.stdout}{made.stderr}")
    for text, is_seen in ((SET.read_text(), False), (SET.read_text().replace("              - --watch  # node 0 names in its log who hangs\n", ""), True),
                          ((SHAPES / "jobset-torchrun.yaml").read_text(), False), ((SHAPES / "pytorchjob.yaml").read_text(), True),
                          ((SHAPES / "pytorchjob.yaml").read_text().replace("          - name: pytorch\n", "          - name: watch\n            image: weft\n            command: [/opt/weft/bin/weft-report, watch]\n          - name: pytorch\n", 1), False),
                          ((SHAPES / "work-queue.yaml").read_text(), False), ((SHAPES / "leader-worker.yaml").read_text(), False), ((SHAPES / "rayjob.yaml").read_text(), False)):
        made = run(["--notices", "-"], text)
        if ("nobody hears it when a rank hangs" in made.stdout) != is_seen or made.stdout.count("[watch-missing]") != is_seen:
            fail(f"a notice of a watch: {made.returncode}\n{made.stdout}{made.stderr}")
    unknown = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: a, image: b}]}\n"
    made = run(["-"], unknown)
    if made.returncode != 0 or "nothing is checked but the form: 1 object; not checked: Pod one" not in made.stdout:
        fail(f"a kind without rules: {made.returncode}\n{made.stdout}{made.stderr}")
    made = run(["-"], unknown + "---\n" + MPI.read_text() + "---\n" + SERVICE.read_text())
    if made.returncode != 0 or "nothing wrong: 3 objects, MPIJob weft; not checked: Pod one; --notices shows 1 notice\n" not in made.stdout:
        fail(f"a kind without rules beside one: {made.returncode}\n{made.stdout}{made.stderr}")
    made = run(["-", "--json", "-"], unknown)
    if json.loads(made.stdout)["not_checked"] != ["Pod one"]:
        fail(f"a kind without rules as JSON: {made.stdout}")
    made = run(["--notices", "-"], JOB.read_text().replace("completions: 2", "completions: $NODES") + "---\n" + SERVICE.read_text())
    if made.returncode != 0 or "completions is $NODES, which is to be filled in before" not in made.stdout:
        fail(f"a template of envsubst: {made.returncode}\n{made.stdout}{made.stderr}")
    made = run([SHAPES / "mpi-roce.yaml", "--sarif", work / "out.sarif"])
    if made.returncode != 0 or json.loads((work / "out.sarif").read_text())["version"] != "2.1.0":
        fail(f"--sarif: {made.returncode}\n{made.stderr}")


if __name__ == "__main__":
    import tempfile
    probe = subprocess.run([LAUNCH, "lint", str(TRAIN)], capture_output=True, text=True)
    if "built without yaml-cpp" in probe.stderr:
        print("skipped: this weft-launch is built without yaml-cpp (libyaml-cpp-dev)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        main(pathlib.Path(folder))
    sys.exit(1 if failures else 0)
