package install_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveSidecarSets makes the manager write the revision and the status of a SidecarSet.
func (c *cluster) liveSidecarSets(ns string) {
	c.t.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "rights-" + ns}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"rights": ns}}
	set.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "log", Image: "example.test/log:v1"}}}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), set) }()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.LatestRevision == "" {
			return fmt.Errorf("status %+v", set.Status)
		}
		return nil
	})
}
