package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// writtenLock counts the writes to a Lease.
type writtenLock struct {
	resourcelock.Interface

	created, updated int
}

func (l *writtenLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	l.created++
	return nil
}

func (l *writtenLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	l.updated++
	return nil
}

func (*writtenLock) Describe() string { return "kruise-system/kruise-manager" }

func TestAfterServing(t *testing.T) {
	type written struct{ Created, Updated, Asked int }
	type lock = resourcelock.Interface
	create := func(ctx context.Context, l lock) error { return l.Create(ctx, resourcelock.LeaderElectionRecord{}) }
	update := func(ctx context.Context, l lock) error { return l.Update(ctx, resourcelock.LeaderElectionRecord{}) }
	const every = time.Second
	for _, tc := range []struct {
		name    string
		write   func(context.Context, lock) error
		fails   int           // the number of failures of the webhooks
		patient time.Duration // the timeout of the calls
		ends    bool
		want    written
	}{
		{"a Lease is created at once by who serves", create, 0, time.Minute, false, written{1, 0, 1}},
		{"a Lease is created when the webhooks serve", create, 3, time.Minute, false, written{1, 0, 4}},
		{"a Lease is taken when the webhooks serve", update, 3, time.Minute, false, written{0, 1, 4}},
		{"the manager ends before that", update, 100, 2500 * time.Millisecond, true, written{0, 0, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				inner := &writtenLock{}
				l := manager.AfterServing(inner, func(context.Context) error {
					if asked++; asked <= tc.fails {
						return errors.New("no certificate")
					}
					return nil
				}, every)
				ctx, cancel := context.WithTimeout(t.Context(), tc.patient)
				defer cancel()
				if err := tc.write(ctx, l); (err != nil) != tc.ends {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(tc.want, written{inner.created, inner.updated, asked}); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				if tc.ends {
					return
				}
				// A replica that holds the Lease renews the Lease even if its webhooks fail.
				if err := update(ctx, l); err != nil || asked != tc.want.Asked || inner.updated != tc.want.Updated+1 {
					t.Errorf("renewing: %v after asking %d times, %d updates", err, asked, inner.updated)
				}
			})
		})
	}
	if l := manager.AfterServing(nil, nil, every); l != nil {
		t.Errorf("without leader election there is a lock %v", l)
	}
}

// TestLeaseIsLeftToWhoServes: a replica whose webhooks do not serve does not acquire the Lease. In the test, a
// ResourceQuota forbids the Secret with the certificates, so the webhooks of the replica cannot serve.
func TestLeaseIsLeftToWhoServes(t *testing.T) {
	c := newCluster(t)
	c.install()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "no-secrets"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: quota.Namespace}}
	for _, obj := range []client.Object{namespace, quota} {
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), obj)); err != nil {
			t.Fatal(err)
		}
	}
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		if len(quota.Status.Hard) == 0 {
			return errors.Join(err, errors.New("the quota does not hold yet"))
		}
		return err
	})
	m := c.run("--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=500ms")
	controlplanetest.Eventually(t, 30*time.Second, func(context.Context) error {
		requests, _, err := audit.Read(c.cp.AuditLog(), 0, "kruise-manager/")
		refused := 0
		for _, r := range requests {
			if r.Resource == "secrets" && r.Code == 403 {
				refused++
			}
		}
		if refused < 4 { // with the back-off, the fourth refusal comes 7 s after the first
			return errors.Join(err, fmt.Errorf("creating the Secret was refused %d times", refused))
		}
		return err
	})
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: quota.Namespace, Name: "kruise-manager"}
	if err := c.Get(t.Context(), key, lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("a manager whose webhooks do not serve leads: %s", holder)
	}
	if err := c.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	m.untilReady()
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		err := c.Get(ctx, key, lease)
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); !strings.HasPrefix(holder, "workloadkit_") {
			return errors.Join(err, fmt.Errorf("the Lease is held by %q", holder))
		}
		return err
	})
}
