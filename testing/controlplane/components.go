package controlplane

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	loopback = "127.0.0.1"
	// manyRequests per second is more than any component sends on a single machine, so that client-side limits never
	// affect measurements.
	manyRequests = 5000
	// parallelStages is how many Pods kwok patches at the same time: enough to keep the API server busy.
	parallelStages = 64
)

// layout names the files in the directory of a control plane.
type layout struct{ dir string }

func (l layout) state(elem ...string) string {
	return filepath.Join(append([]string{l.dir, "controlplane"}, elem...)...)
}
func (l layout) pki(name string) string    { return l.state("pki", name) }
func (l layout) log(name string) string    { return l.state("logs", name+".log") }
func (l layout) config(name string) string { return l.state("config", name) }
func (l layout) kubeconfig() string        { return filepath.Join(l.dir, "kubeconfig") }
func (l layout) lock() string              { return filepath.Join(l.dir, "controlplane.lock") }
func (l layout) record() string            { return l.state("processes.json") }
func (l layout) offer() string             { return l.state("offer.json") }

func (l layout) create() error {
	for _, dir := range []string{"pki", "logs", "config", "etcd"} {
		if err := os.MkdirAll(l.state(dir), 0o700); err != nil {
			return fmt.Errorf("create the directory of the control plane: %w", err)
		}
	}
	return nil
}

// ports are the ports of a control plane. Each start chooses new ports.
type ports struct{ etcd, etcdPeer, api int }

// freePorts asks the kernel for free ports on the loopback address.
func freePorts(ctx context.Context) (ports, error) {
	var p ports
	var listen net.ListenConfig
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.api} {
		l, err := listen.Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return p, fmt.Errorf("find a free port: %w", err)
		}
		// All listeners stay open until all ports are chosen, because the kernel could otherwise return the same port
		// twice.
		defer func() { _ = l.Close() }()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

func url(port int) string { return "https://" + net.JoinHostPort(loopback, strconv.Itoa(port)) }

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
  - level: Metadata
`

func schedulerConfig(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: %d
  burst: %d
leaderElection:
  leaderElect: false
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`, kubeconfig, manyRequests, manyRequests)
}

func etcdFlags(l layout, p ports) []string {
	return []string{
		"--name=controlplane",
		"--data-dir=" + l.state("etcd"),
		"--listen-client-urls=" + url(p.etcd),
		"--advertise-client-urls=" + url(p.etcd),
		"--listen-peer-urls=" + url(p.etcdPeer),
		"--initial-advertise-peer-urls=" + url(p.etcdPeer),
		"--initial-cluster=controlplane=" + url(p.etcdPeer),
		"--client-cert-auth", "--cert-file=" + l.pki("etcd.crt"), "--key-file=" + l.pki("etcd.key"), "--trusted-ca-file=" + l.pki("ca.crt"),
		"--peer-client-cert-auth", "--peer-cert-file=" + l.pki("etcd.crt"), "--peer-key-file=" + l.pki("etcd.key"), "--peer-trusted-ca-file=" + l.pki("ca.crt"),
		"--unsafe-no-fsync",
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	}
}

func apiServerFlags(l layout, p ports, opts Options) []string {
	flags := []string{
		"--etcd-servers=" + url(p.etcd),
		"--etcd-cafile=" + l.pki("ca.crt"), "--etcd-certfile=" + l.pki("etcd.crt"), "--etcd-keyfile=" + l.pki("etcd.key"),
		"--bind-address=" + loopback, "--advertise-address=" + loopback, "--secure-port=" + strconv.Itoa(p.api),
		"--tls-cert-file=" + l.pki("kube-apiserver.crt"), "--tls-private-key-file=" + l.pki("kube-apiserver.key"),
		"--client-ca-file=" + l.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki("service-account.crt"), "--service-account-signing-key-file=" + l.pki("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		// A single API server needs no entry in the Endpoints of the Service kubernetes.
		"--endpoint-reconciler-type=none",
		"--kubelet-preferred-address-types=InternalIP",
		"--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000",
	}
	if opts.AuditLog != "" {
		flags = append(flags,
			"--audit-policy-file="+l.config("audit-policy.yaml"), "--audit-log-path="+opts.AuditLog, "--audit-log-mode=blocking",
			// A rotation of the log would remove lines that no reader has read yet.
			"--audit-log-maxsize=1000000")
	}
	flags = append(flags, featureGates(opts)...)
	return append(flags, opts.APIServerFlags...)
}

func featureGates(opts Options) []string {
	if len(opts.FeatureGates) == 0 {
		return nil
	}
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(opts.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, opts.FeatureGates[name]))
	}
	return []string{"--feature-gates=" + strings.Join(gates, ",")}
}

func controllerManagerFlags(l layout, opts Options) []string {
	rate := strconv.Itoa(manyRequests)
	return append([]string{
		"--kubeconfig=" + l.config("kube-controller-manager.kubeconfig"),
		"--leader-elect=false",
		// The controller manager needs no port, because nobody sends requests to the controller manager.
		"--secure-port=0",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + l.pki("service-account.key"),
		"--root-ca-file=" + l.pki("ca.crt"),
		"--cluster-signing-cert-file=" + l.pki("ca.crt"), "--cluster-signing-key-file=" + l.pki("ca.key"),
		"--kube-api-qps=" + rate, "--kube-api-burst=" + rate,
		// On a busy machine, the controller manager must not mark Nodes as unreachable.
		"--node-monitor-grace-period=" + longestLease.String(),
		"--flex-volume-plugin-dir=" + l.state("flexvolume"),
	}, featureGates(opts)...)
}

func schedulerFlags(l layout, opts Options) []string {
	return append([]string{"--config=" + l.config("scheduler.yaml"), "--secure-port=0"}, featureGates(opts)...)
}

func kwokFlags(l layout, opts Options) []string {
	return []string{
		"--kubeconfig=" + l.config("kwok.kubeconfig"),
		"--config=" + l.config("kwok.yaml"),
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=" + simulated + "=fake",
		"--node-ip=" + loopback, "--cidr=10.128.0.0/9",
		fmt.Sprintf("--node-lease-duration-seconds=%d", opts.LeaseDuration/time.Second),
		// A log line for each patch would slow kwok down.
		"--v=WARN",
	}
}

func kwokConfig() (string, error) {
	stages, err := stages()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: %d
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 4
---
%s`, parallelStages, stages), nil
}

// writeFiles writes all files that the components read, and returns the kubeconfig of the administrator.
func writeFiles(l layout, p ports) (*clientcmdapi.Config, error) {
	now := time.Now()
	ca, caPair, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	servers := map[string][]string{
		"kube-apiserver": {loopback, "localhost", "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		"etcd":           {loopback, "localhost"},
	}
	pairs := map[string]pair{"ca": caPair}
	for name, hosts := range servers {
		if pairs[name], err = ca.issue(now, name, nil, hosts...); err != nil {
			return nil, err
		}
	}
	if pairs["service-account"], err = ca.issue(now, "service-account", nil); err != nil {
		return nil, err
	}
	for name, pair := range pairs {
		if err := pair.write(l.state("pki"), name); err != nil {
			return nil, err
		}
	}
	if err := writeConfigs(l, ca, p); err != nil {
		return nil, err
	}
	admin, err := ca.issue(now, "admin", []string{"system:masters"})
	if err != nil {
		return nil, err
	}
	config := kubeconfig(p, ca, "admin", admin)
	if err := clientcmd.WriteToFile(*config, l.kubeconfig()); err != nil {
		return nil, fmt.Errorf("write %s: %w", l.kubeconfig(), err)
	}
	return config, nil
}

func writeConfigs(l layout, ca *authority, p ports) error {
	// kwok acts as the kubelet of all Nodes, and no RBAC role grants so many rights.
	users := map[string][]string{"kube-controller-manager": nil, "kube-scheduler": nil, "kwok": {"system:masters"}}
	for name, groups := range users {
		pair, err := ca.issue(time.Now(), "system:"+name, groups)
		if err != nil {
			return err
		}
		path := l.config(name + ".kubeconfig")
		if err := clientcmd.WriteToFile(*kubeconfig(p, ca, name, pair), path); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	kwok, err := kwokConfig()
	if err != nil {
		return err
	}
	files := map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.yaml":    schedulerConfig(l.config("kube-scheduler.kubeconfig")),
		"kwok.yaml":         kwok,
	}
	for name, text := range files {
		if err := os.WriteFile(l.config(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

func kubeconfig(p ports, ca *authority, user string, client pair) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["controlplane"] = &clientcmdapi.Cluster{Server: url(p.api), CertificateAuthorityData: ca.certPEM}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.cert, ClientKeyData: client.key}
	config.Contexts["controlplane"] = &clientcmdapi.Context{Cluster: "controlplane", AuthInfo: user}
	config.CurrentContext = "controlplane"
	return config
}

func restConfig(config *clientcmdapi.Config) (*rest.Config, error) {
	c, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("make a client configuration: %w", err)
	}
	// Only the server limits requests; a client-side limit would hide the limit to be measured.
	c.QPS = -1
	return c, nil
}
