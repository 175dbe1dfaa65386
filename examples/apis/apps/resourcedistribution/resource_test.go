package resourcedistribution_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
)

func ExampleRead() {
	resource, problems := resourcedistribution.Read(
		[]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull"},"stringData":{"token":"abc"}}`), resourcedistribution.ResourcePath())
	secret, _ := resource.Copy("shop", metav1.OwnerReference{Name: "share"}).(*corev1.Secret)
	fmt.Println(secret.Namespace, secret.Name, secret.Type, string(secret.Data["token"]), len(problems))
	// Output: shop pull Opaque abc 0
}

const demo = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"demo"},"data":{"k":"v"}}`

// TestHash: the hash equals OpenKruise's hash of the same resource.
func TestHash(t *testing.T) {
	r, errs := resourcedistribution.Read([]byte(`{"apiVersion":"v1","data":{"game.properties":"enemies=aliens","player":"one"},"kind":"ConfigMap","metadata":{"name":"game-demo"}}`), nil)
	if len(errs) > 0 || r.Hash != "5cbc7c8cda3dfc4be83a27a510597a8ffdbb7448aeae0769c80172284e23fd6f" {
		t.Errorf("%v, %v", r, errs)
	}
}

// FuzzRead: for every spec, Read returns a resource or problems with paths, and a copy equals the template except for
// the metadata.
func FuzzRead(f *testing.F) {
	f.Add(demo)
	f.Add(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","uid":"u","labels":{"a":"b"},"finalizers":["x/y"]},"stringData":{"k":"v"},"type":"x"}`)
	f.Add(`{"apiVersion":"v1","kind":"ConfigMap","metadata":null,"data":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		resource, errs := resourcedistribution.Read([]byte(text), resourcedistribution.ResourcePath())
		for _, err := range errs {
			if !strings.HasPrefix(err.Field, "spec.resource") {
				t.Errorf("%v has no path", err)
			}
		}
		if (resource == nil) != (len(errs) > 0) {
			t.Fatalf("%v, %v", resource, errs)
		}
		if resource == nil {
			return
		}
		if kind, name := resourcedistribution.Named([]byte(text)); kind != resource.Kind || name != resource.Name {
			t.Errorf("named %s %s, read %s %s", kind, name, resource.Kind, resource.Name)
		}
		first, second := resource.Copy("a", metav1.OwnerReference{Name: "x"}), resource.Copy("b", metav1.OwnerReference{Name: "x"})
		if first.GetUID() != "" || first.GetResourceVersion() != "" || len(first.GetOwnerReferences()) != 1 {
			t.Errorf("%+v", first)
		}
		first.GetAnnotations()["touched"] = "x"
		if _, shared := second.GetAnnotations()["touched"]; shared {
			t.Error("copies share memory")
		}
	})
}
