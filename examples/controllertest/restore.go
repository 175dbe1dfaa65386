package controllertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// Restore creates the objects of a file in a namespace. Owners are created first, so that the references of owned
// objects get the new UIDs. Each object gets the status that it has in the file. Selectors that select the original
// namespace by name are changed to select the new namespace.
func Restore(t testing.TB, c client.Client, namespace, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = regexp.MustCompile(corev1.LabelMetadataName+`: \S+`).ReplaceAll(raw, []byte(corev1.LabelMetadataName+": "+namespace))
	newRestorer(t, c, namespace).restore(raw)
}

// RestoreConverted does the same as Restore, for files with objects in v1alpha1, as OpenKruise 1.9.0 stores them. The
// objects are converted before they are created, so that no conversion webhook is needed.
func RestoreConverted(t testing.TB, c client.Client, namespace, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(raw), "\n---\n")
	for i, document := range documents {
		text, err := yaml.YAMLToJSON([]byte(document))
		if err == nil && strings.HasPrefix(document, "apiVersion: apps.kruise.io/v1alpha1") {
			text, err = conversion.JSON(text, "apps.kruise.io/v1beta1")
		}
		if err != nil {
			t.Fatal(err)
		}
		documents[i] = string(text)
	}
	newRestorer(t, c, namespace).restore([]byte(strings.Join(documents, "\n---\n")))
}

// RestoreCluster does the same as Restore for several files, and creates the objects in their original namespaces. edit
// changes the text of each file before it is read, and may be nil. Objects with a deletion timestamp in the file are
// deleted at the end.
func RestoreCluster(t testing.TB, c client.Client, edit func(raw []byte) []byte, paths ...string) {
	t.Helper()
	r := newRestorer(t, c, "")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if edit != nil {
			raw = edit(raw)
		}
		r.restore(raw)
	}
	for _, u := range r.ending {
		if err := c.Delete(t.Context(), u); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}

// restorer creates objects as files describe them.
type restorer struct {
	client.Client
	t         testing.TB
	namespace string                  // namespace for all objects; if empty, each object's namespace in the file is used
	uids      map[types.UID]types.UID // new UIDs by UIDs in the files
	ending    []*unstructured.Unstructured
}

func newRestorer(t testing.TB, c client.Client, namespace string) *restorer {
	return &restorer{Client: c, t: t, namespace: namespace, uids: map[types.UID]types.UID{}}
}

func (r *restorer) restore(raw []byte) {
	r.t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			r.t.Fatal(err)
		}
		if len(u.Object) == 0 {
			continue
		}
		r.create(u)
	}
}

func (r *restorer) create(u *unstructured.Unstructured) {
	r.t.Helper()
	old := u.GetUID()
	if u.GetDeletionTimestamp() != nil {
		r.ending = append(r.ending, u)
	}
	u.SetUID("")
	u.SetResourceVersion("")
	if namespaced, err := r.IsObjectNamespaced(u); err != nil {
		r.t.Fatal(err)
	} else if namespaced && r.namespace != "" {
		u.SetNamespace(r.namespace)
	}
	refs := u.GetOwnerReferences()
	for i := range refs {
		refs[i].UID = r.uids[refs[i].UID]
		if refs[i].UID == "" {
			r.t.Fatalf("%s %s comes before its owner %s", u.GetKind(), u.GetName(), refs[i].Name)
		}
	}
	if len(refs) > 0 {
		u.SetOwnerReferences(refs)
	}
	status := u.Object["status"]
	if err := r.Create(r.t.Context(), u); err != nil {
		r.t.Fatalf("restoring %s %s: %v", u.GetKind(), u.GetName(), err)
	}
	r.uids[old] = u.GetUID()
	if status == nil {
		return
	}
	controlplanetest.Eventually(r.t, 10*time.Second, func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		u.Object["status"] = status
		return r.Status().Update(ctx, u)
	})
}
