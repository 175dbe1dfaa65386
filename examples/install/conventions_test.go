package install_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestShutdownFitsIntoTheGracePeriod: the shutdown of a manager takes no longer than the grace period of its Pod. The
// shutdown consists of a pause, after which API servers no longer call the manager, the end of running work, and the
// release of the Lease.
func TestShutdownFitsIntoTheGracePeriod(t *testing.T) {
	for name, text := range map[string]string{"kustomization": kustomize(t), "chart": must(t)(template(t))} {
		pod := as[appsv1.Deployment](t, find(t, parse(t, text), "Deployment", "")).Spec.Template.Spec
		if pod.TerminationGracePeriodSeconds == nil {
			t.Errorf("%s: the grace period is left to the default", name)
			continue
		}
		const release = 10 * time.Second // the default of --leader-election-renew-deadline
		pause := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		if need := pause + manager.ShutdownTimeout + release; need > grace || pause == 0 {
			t.Errorf("%s: a pause of %v, %v for what runs and %v for the Lease do not fit into %v", name, pause, manager.ShutdownTimeout, release, grace)
		}
	}
}

func TestBudgetOfDisruptions(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"control-plane": "controller-manager"}}
	spec := func(minAvailable, maxUnavailable *intstr.IntOrString) *policyv1.PodDisruptionBudgetSpec {
		return &policyv1.PodDisruptionBudgetSpec{
			MinAvailable: minAvailable, MaxUnavailable: maxUnavailable, Selector: selector, UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		}
	}
	one := ptr.To(intstr.FromInt32(1))
	for _, tc := range []struct {
		values []string
		want   *policyv1.PodDisruptionBudgetSpec
	}{
		{nil, spec(nil, one)},
		{[]string{`podDisruptionBudget.maxUnavailable="50%"`}, spec(nil, ptr.To(intstr.FromString("50%")))},
		{[]string{`podDisruptionBudget.minAvailable=1`}, spec(one, nil)},
		{[]string{`podDisruptionBudget.enabled=false`}, nil},
		{[]string{`manager.replicas=1`}, nil}, // a PodDisruptionBudget for a single Pod would prevent every drain
	} {
		t.Run(fmt.Sprint(tc.values), func(t *testing.T) {
			var got *policyv1.PodDisruptionBudgetSpec
			for _, obj := range parse(t, must(t)(template(t, tc.values...))) {
				if obj.GetKind() == "PodDisruptionBudget" {
					got = &as[policyv1.PodDisruptionBudget](t, obj).Spec
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNetworkPolicyAdmitsWhatIsNeeded(t *testing.T) {
	port := func(name string) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromString(name))}}
	}
	prometheus := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "watch"}}}
	for _, tc := range []struct {
		name   string
		values []string
		want   []networkingv1.NetworkPolicyIngressRule
	}{
		{"webhooks from everywhere", nil, []networkingv1.NetworkPolicyIngressRule{{Ports: port("webhook")}}},
		{
			"webhooks from API servers, metrics for some",
			[]string{`networkPolicy.webhookCIDRs=["192.0.2.0/24","2001:db8::/32"]`, `networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"team":"watch"}}}]`},
			[]networkingv1.NetworkPolicyIngressRule{
				{Ports: port("webhook"), From: []networkingv1.NetworkPolicyPeer{
					{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "2001:db8::/32"}},
				}},
				{Ports: port("metrics"), From: []networkingv1.NetworkPolicyPeer{prometheus}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := parse(t, must(t)(template(t, append(tc.values, "networkPolicy.enabled=true")...)))
			want := networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"control-plane": "controller-manager"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: tc.want,
			}
			if diff := cmp.Diff(want, as[networkingv1.NetworkPolicy](t, find(t, objects, "NetworkPolicy", "")).Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestServiceMonitor: the ServiceMonitor selects the only Service with metrics, and uses the protocol that the
// manager serves.
func TestServiceMonitor(t *testing.T) {
	for _, tc := range []struct {
		name     string
		values   []string
		endpoint map[string]any
	}{
		{"plain", nil, map[string]any{"port": "metrics", "path": "/metrics", "scheme": "http"}},
		{"secure", []string{`manager.metrics.secure=true`, `serviceMonitor.interval="20s"`}, map[string]any{
			"port": "metrics", "path": "/metrics", "scheme": "https", "interval": "20s",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig":       map[string]any{"insecureSkipVerify": true},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := parse(t, must(t)(template(t, append(tc.values, "serviceMonitor.enabled=true")...)))
			service := as[corev1.Service](t, find(t, objects, "Service", "kruise-controller-manager-metrics"))
			labels := map[string]any{}
			for name, value := range service.Labels {
				labels[name] = value
			}
			want := map[string]any{"endpoints": []any{tc.endpoint}, "selector": map[string]any{"matchLabels": labels}}
			if diff := cmp.Diff(want, find(t, objects, "ServiceMonitor", "").Object["spec"]); diff != "" {
				t.Errorf("monitor (-want +got):\n%s", diff)
			}
			port := []corev1.ServicePort{{Name: "metrics", Port: 8080, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("metrics")}}
			if diff := cmp.Diff(port, service.Spec.Ports); diff != "" {
				t.Errorf("ports of the Service (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(as[corev1.Service](t, find(t, objects, "Service", "kruise-webhook-service")).Spec.Selector, service.Spec.Selector); diff != "" {
				t.Errorf("selectors of the two Services (-webhooks +metrics):\n%s", diff)
			}
		})
	}
	for _, obj := range parse(t, must(t)(template(t))) {
		if obj.GetKind() == "ServiceMonitor" {
			t.Error("a ServiceMonitor by default")
		}
	}
}
