package controllertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// Restore creates the objects of a file in a namespace: owners first, with their new UIDs in what they own, and each with the status it
// had. Objects that select the namespace by its name select the new one.
func Restore(t testing.TB, c client.Client, namespace, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = regexp.MustCompile(corev1.LabelMetadataName+`: \S+`).ReplaceAll(raw, []byte(corev1.LabelMetadataName+": "+namespace))
	uids := map[types.UID]types.UID{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if len(u.Object) == 0 {
			continue
		}
		restoreObject(t, c, namespace, u, uids)
	}
}

func restoreObject(t testing.TB, c client.Client, namespace string, u *unstructured.Unstructured, uids map[types.UID]types.UID) {
	t.Helper()
	old := u.GetUID()
	u.SetUID("")
	u.SetResourceVersion("")
	if namespaced, err := c.IsObjectNamespaced(u); err != nil {
		t.Fatal(err)
	} else if namespaced {
		u.SetNamespace(namespace)
	}
	refs := u.GetOwnerReferences()
	for i := range refs {
		refs[i].UID = uids[refs[i].UID]
		if refs[i].UID == "" {
			t.Fatalf("%s %s comes before its owner %s", u.GetKind(), u.GetName(), refs[i].Name)
		}
	}
	if len(refs) > 0 {
		u.SetOwnerReferences(refs)
	}
	status := u.Object["status"]
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatalf("restoring %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	uids[old] = u.GetUID()
	if status == nil {
		return
	}
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		u.Object["status"] = status
		return c.Status().Update(ctx, u)
	})
}
