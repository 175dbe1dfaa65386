package faultapi_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestCreationsUnderAQuota: the API server refuses a creation with a conflict if other clients, such as the quota
// controller, change the ResourceQuota at the same time. A tracked client retries such creations, so its callers
// never see the conflict.
func TestCreationsUnderAQuota(t *testing.T) {
	c, err := client.New(env.Start(t).Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100k")}
	if err := c.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		return c.Create(ctx, newOwned(namespace, nil)) // refused until the quota controller has counted the Pods
	})
	clients, err := trackedclient.NewClients(c, c, trackedclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var creating sync.WaitGroup
	for range 30 {
		creating.Go(func() {
			tracked := clients.For("owner")
			for i := range 30 {
				pod := newOwned(namespace, nil)
				if err := tracked.Create(t.Context(), pod); err != nil {
					t.Error(err)
				} else if i%2 == 0 {
					_ = c.Delete(t.Context(), pod) // the quota controller counts the Pods again
				}
			}
		})
	}
	creating.Wait()
}
