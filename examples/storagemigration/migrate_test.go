package storagemigration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/examples/storagemigration"
)

const widgets = "widgets.example.test"

// crd returns a CRD with two served versions. The CRD stores v2.
func crd(stored ...any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": widgets},
		"spec": map[string]any{
			"group": "example.test", "names": map[string]any{"kind": "Widget", "listKind": "WidgetList", "plural": "widgets"}, "scope": "Namespaced",
			"versions": []any{
				map[string]any{"name": "v1", "served": true, "storage": false},
				map[string]any{"name": "v2", "served": true, "storage": true},
				map[string]any{"name": "v0", "served": false, "storage": false},
			},
		},
		"status": map[string]any{"storedVersions": stored},
	}}
	return object
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.test/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": name},
	}}
}

// TestMigrate checks the written objects and the final status.storedVersions, also if the API server refuses or loses
// an object.
func TestMigrate(t *testing.T) {
	resource := schema.GroupResource{Group: "example.test", Resource: "widgets"}
	for _, tc := range []struct {
		name   string
		o      storagemigration.Options
		write  error // for widget b
		stored []any
		want   []string // status.storedVersions
		says   []string
		err    string
	}{
		{
			name: "all objects", o: storagemigration.Options{To: "v1"}, want: []string{"v1"},
			says: []string{"from v2, 0 written", "from v2, 3 written", "from v2, 3 written, done"},
		},
		{
			name: "a dry run", o: storagemigration.Options{To: "v1", DryRun: true}, want: []string{"v2", "v1"},
			says: []string{"from v2, 0 written", "from v2, 3 written"},
		},
		{
			name: "a refused object is named, and others are written", o: storagemigration.Options{To: "v1"}, want: []string{"v2", "v1"},
			write: apierrors.NewInvalid(schema.GroupKind{Group: "example.test", Kind: "Widget"}, "b", field.ErrorList{field.Required(field.NewPath("spec"), "")}),
			says:  []string{"from v2, 0 written", "from v2, 2 written"}, err: "shop/b",
		},
		{
			name: "whoever writes an object meanwhile stores it", o: storagemigration.Options{To: "v1"}, want: []string{"v1"}, write: apierrors.NewConflict(resource, "b", errors.New("changed")),
			says: []string{"from v2, 0 written", "from v2, 2 written", "from v2, 2 written, done"},
		},
		{
			name: "an object that is gone needs nothing", o: storagemigration.Options{To: "v1"}, want: []string{"v1"}, write: apierrors.NewNotFound(resource, "b"),
			says: []string{"from v2, 0 written", "from v2, 2 written", "from v2, 2 written, done"},
		},
		{name: "nothing to do", o: storagemigration.Options{To: "v2"}, stored: []any{"v2"}, want: []string{"v2"}, says: []string{"from v2, 0 written", "from v2, 0 written, done"}},
		{name: "a version that is not served", o: storagemigration.Options{To: "v0"}, want: []string{"v2", "v1"}, err: storagemigration.ErrNotServed.Error()},
		{name: "an unknown version", o: storagemigration.Options{To: "v3"}, want: []string{"v2", "v1"}, err: storagemigration.ErrNotServed.Error()},
		{name: "no version", want: []string{"v2", "v1"}, err: "required"},
		{name: "an unknown CRD", o: storagemigration.Options{To: "v1", CRDs: []string{"gadgets.example.test"}}, want: []string{"v2", "v1"}, err: "gadgets.example.test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.stored == nil {
				tc.stored = []any{"v2", "v1"}
			}
			definition := crd(tc.stored...)
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(definition, widget("a"), widget("b"), widget("c")).WithStatusSubresource(definition).
				WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
					if o.GetName() == "b" && tc.write != nil {
						return tc.write
					}
					return c.Update(ctx, o, options...)
				}}).Build()
			if tc.o.CRDs == nil {
				tc.o.CRDs = []string{widgets}
			}
			var says []string
			tc.o.Settle, tc.o.Report = time.Nanosecond, func(step storagemigration.Step) {
				line := fmt.Sprintf("from %s, %d written", step.From, step.Written)
				if step.Done {
					line += ", done"
				}
				says = append(says, line)
			}
			err := storagemigration.Migrate(t.Context(), c, tc.o)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.says, says); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
				t.Fatal(err)
			}
			if stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions"); cmp.Diff(tc.want, stored) != "" {
				t.Errorf("stored versions %v, want %v", stored, tc.want)
			}
		})
	}
}
