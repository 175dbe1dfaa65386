package storagemigration_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/examples/storagemigration"
)

// TestListsThatExpire: the continue token of the list expires, because the writes of a page take too long. The
// migration continues with the next page.
func TestListsThatExpire(t *testing.T) {
	const objects, lifetime = 1200, 900
	definition := crd("v2", "v1")
	var lists, writes, listAt atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	page := func(from int, list *unstructured.UnstructuredList) {
		for i := from; i < min(from+500, objects); i++ {
			w := widget(fmt.Sprintf("w%05d", i))
			w.SetResourceVersion("1")
			list.Items = append(list.Items, *w)
		}
		if from+500 < objects {
			list.SetContinue(fmt.Sprint(from + 500))
		}
	}
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(definition).WithStatusSubresource(definition).
		WithInterceptorFuncs(interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				if o.GetObjectKind().GroupVersionKind().Kind != "Widget" {
					return c.Update(ctx, o, options...)
				}
				writes.Add(1)
				return nil
			},
			List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
				o := client.ListOptions{}
				o.ApplyOptions(options)
				list := l.(*unstructured.UnstructuredList)
				if n := lists.Add(1); n > 60 {
					cancel() // the test ends with an error instead of an endless loop
				}
				if o.Continue == "" {
					listAt.Store(writes.Load())
					page(0, list)
					return nil
				}
				from, err := strconv.Atoi(o.Continue)
				if err != nil {
					return err
				}
				if writes.Load()-listAt.Load() > lifetime {
					err := apierrors.NewResourceExpired("The provided continue parameter is too old")
					err.ErrStatus.ListMeta.Continue = o.Continue // a token for a later resourceVersion
					listAt.Store(writes.Load())
					return err
				}
				page(from, list)
				return nil
			},
		}).Build()
	err := storagemigration.Migrate(ctx, c, storagemigration.Options{CRDs: []string{widgets}, To: "v1", Settle: time.Nanosecond})
	if err != nil {
		t.Errorf("1200 objects were not migrated: %v; %d lists, %d writes", err, lists.Load(), writes.Load())
	}
}

// interrupted is a clock on which the program is ended as soon as the program waits.
type interrupted struct {
	*clocktesting.FakeClock

	end func()
}

func (c interrupted) After(d time.Duration) <-chan time.Time {
	c.end()
	return c.FakeClock.After(d)
}

// TestEndedWhileItSettles: a migration ends while it waits for the API servers to learn of the storage version. The
// next migration waits again.
func TestEndedWhileItSettles(t *testing.T) {
	definition := crd("v2", "v1")
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	var early []string
	settledAt := clock.Now().Add(10 * time.Second) // until then another API server of the same cluster stores v2
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(definition, widget("a"), widget("b")).WithStatusSubresource(definition).
		WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Widget" && clock.Now().Before(settledAt) {
				early = append(early, o.GetName())
			}
			return c.Update(ctx, o, options...)
		}}).Build()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := storagemigration.Migrate(ctx, c, storagemigration.Options{CRDs: []string{widgets}, To: "v1", Clock: interrupted{clock, cancel}}); err == nil {
		t.Fatal("was not ended")
	}
	clock.Step(time.Second)
	again, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	err := storagemigration.Migrate(again, c, storagemigration.Options{CRDs: []string{widgets}, To: "v1", Clock: clock})
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(definition.GroupVersionKind())
	_ = c.Get(t.Context(), client.ObjectKeyFromObject(definition), got)
	stored, _, _ := unstructured.NestedStringSlice(got.Object, "status", "storedVersions")
	if len(early) > 0 {
		t.Errorf("a second after the change, %v were written, stored versions %v, error %v", early, stored, err)
	}
}
