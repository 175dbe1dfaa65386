package specwebhook_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/decode/specwebhook"
)

func TestValidator(t *testing.T) {
	bad := errors.New("spec.x: bad")
	v := specwebhook.New[*corev1.ReplicationController, []string](func(rc *corev1.ReplicationController) error {
		if rc.Name == "bad" {
			return bad
		}
		return nil
	})
	at := func(name string, generation int64) *corev1.ReplicationController {
		rc := &corev1.ReplicationController{}
		rc.Name, rc.Generation = name, generation
		return rc
	}
	_, created := v.ValidateCreate(t.Context(), at("bad", 1))
	_, good := v.ValidateCreate(t.Context(), at("good", 1))
	_, changed := v.ValidateUpdate(t.Context(), at("bad", 1), at("bad", 2))
	_, mended := v.ValidateUpdate(t.Context(), at("bad", 1), at("good", 2))
	_, elsewhere := v.ValidateUpdate(t.Context(), at("bad", 2), at("bad", 2))
	_, deleted := v.ValidateDelete(t.Context(), at("bad", 1))
	for _, tc := range []struct {
		name      string
		got, want error
	}{
		{"created", created, bad},
		{"created and good", good, nil},
		{"a spec is changed", changed, bad},
		{"a spec is mended", mended, nil},
		{"something else is changed", elsewhere, nil},
		{"deleted", deleted, nil},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}
