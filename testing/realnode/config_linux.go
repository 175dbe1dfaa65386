package realnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// The Node's network is a bridge on this machine.
const (
	bridgeName    = "wkit0"
	bridgeAddress = "10.199.0.1"
	podSubnet     = "10.199.0.0/24"
	cgroupRoot    = "workloadkit-node"
)

// layout names the files in a Node's directory.
type layout struct{ dir, binaries string }

func (l layout) file(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}
func (l layout) binary(name string) string { return filepath.Join(l.binaries, name) }
func (l layout) socket() string            { return l.file("state", "containerd.sock") }
func (l layout) logs() string              { return l.file("logs") }

// write writes all files that the Node's processes read.
func (l layout) write(node, kubeconfig, registry string, kubeletPort int) error {
	for _, dir := range []string{"state", "logs", "containerd", "kubelet/volumeplugins", "cni/conf", "cni/data", "pods", "hosts/" + registry} {
		if err := os.MkdirAll(l.file(dir), 0o755); err != nil {
			return fmt.Errorf("create the directories of the node: %w", err)
		}
	}
	kubelet, err := l.kubelet(kubeletPort)
	if err != nil {
		return err
	}
	initConfig, err := l.init(node)
	if err != nil {
		return err
	}
	files := map[string]string{
		"containerd.toml":                   l.containerd(registry),
		"hosts/" + registry + "/hosts.toml": hosts(registry),
		"cni/conf/10-bridge.conflist":       l.cni(),
		"kubelet.json":                      kubelet,
		"init.json":                         initConfig,
	}
	for name, text := range files {
		if err := os.WriteFile(l.file(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the configuration of the node: %w", err)
		}
	}
	return l.writeKubeconfig(node, kubeconfig)
}

// writeKubeconfig writes a kubeconfig with which the administrator impersonates the kubelet, so that the API server
// authorizes and logs the requests as requests of the Node.
func (l layout) writeKubeconfig(node, admin string) error {
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		return fmt.Errorf("read the kubeconfig of the control plane: %w", err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "system:node:"+node, []string{"system:nodes", "system:authenticated"}
	}
	if err := clientcmd.WriteToFile(*config, l.file("kubeconfig")); err != nil {
		return fmt.Errorf("write the kubeconfig of the node: %w", err)
	}
	return nil
}

func (l layout) containerd(registry string) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.differ.v1.erofs", "io.containerd.image-verifier.v1.bindir",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "%s/pause:1"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = %q
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = %q
    SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%q]
  conf_dir = %q
`, l.file("containerd"), l.file("state"), l.socket(), l.socket()+".ttrpc", registry, l.file("hosts"),
		l.binary("runc"), l.binaries, l.file("cni", "conf"))
}

func hosts(registry string) string {
	return fmt.Sprintf("server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", registry)
}

func (l layout) cni() string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": %q, "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`, bridgeName, l.file("cni", "data"), podSubnet)
}

func (l layout) kubelet(port int) (string, error) {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": bridgeAddress, "port": port, "healthzPort": 0, "readOnlyPort": 0,
		"authentication": map[string]any{"anonymous": map[string]bool{"enabled": true}, "webhook": map[string]bool{"enabled": false}},
		"authorization":  map[string]string{"mode": "AlwaysAllow"},
		"cgroupDriver":   "cgroupfs", "cgroupRoot": "/" + cgroupRoot, "failCgroupV1": false,
		"enforceNodeAllocatable": []string{"pods"}, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix://" + l.socket(),
		"podLogsDir":               l.file("pods"), "volumePluginDir": l.file("kubelet", "volumeplugins"),
		"makeIPTablesUtilChains": false,
		// The limits are low, because the machine may have less free disk than the kubelet's defaults require.
		"evictionHard": map[string]string{
			"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
		},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"serializeImagePulls": false, "registryPullQPS": 0, "eventRecordQPS": 0, "kubeAPIQPS": 500, "kubeAPIBurst": 500,
		"nodeStatusUpdateFrequency": "5s",
		// The backoff is short, because tests restart the same container several times within seconds.
		"crashLoopBackOff": map[string]string{"maxContainerRestartPeriod": "1s"},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the configuration of the kubelet: %w", err)
	}
	return string(data), nil
}

// init returns the configuration of process 1.
func (l layout) init(node string) (string, error) {
	data, err := json.MarshalIndent(map[string]any{
		"Hide":    []string{"/var/log", "/var/lib/kubelet", "/var/lib/cni", "/run"},
		"Runtime": []string{l.binary("containerd"), "--config", l.file("containerd.toml")},
		"Kubelet": []string{
			l.binary("kubelet"), "--config=" + l.file("kubelet.json"), "--kubeconfig=" + l.file("kubeconfig"),
			"--hostname-override=" + node, "--node-ip=" + bridgeAddress,
			"--root-dir=" + l.file("kubelet"), "--cert-dir=" + l.file("kubelet", "pki"),
		},
		"Socket": l.socket(), "Logs": l.logs(),
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the configuration of process 1: %w", err)
	}
	return string(data), nil
}
