package install_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestNamespacesHaveTheSameLabel: the manager, the manifests and the chart create the manager's namespace with the
// label that exempts its Pods from the webhooks, with the value that OpenKruise uses.
func TestNamespacesHaveTheSameLabel(t *testing.T) {
	c := fresh(t)
	byCode := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "label-" + rand.String(5)}}
	stop := runManager(t, env.Start(t).Config(), func(o *manager.Options) {
		o.Webhooks, o.LeaderElection = nil, &manager.LeaderElection{Namespace: byCode.Name, ID: "kruise-manager"}
	})
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), byCode) })
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(byCode), byCode) })
	stop()

	const label = "control-plane"
	got := map[string]string{
		"manifests": find(t, parse(t, kustomize(t)), "Namespace", "").GetLabels()[label],
		"chart":     find(t, parse(t, must(t)(template(t))), "Namespace", "").GetLabels()[label],
		"manager":   byCode.Labels[label],
	}
	want := map[string]string{"manifests": "openkruise", "chart": "openkruise", "manager": "openkruise"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("label %s (-want +got):\n%s", label, diff)
	}
}
