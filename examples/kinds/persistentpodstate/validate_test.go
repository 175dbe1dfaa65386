package persistentpodstate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type object = v1beta1.PersistentPodState

func state(edits ...func(*object)) *object {
	obj := &object{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keep"}}
	obj.Spec.TargetReference = v1beta1.PersistentPodStateTarget{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}
	obj.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: []string{"kubernetes.io/hostname"}}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func forTarget(apiVersion, kind, name string) func(*object) {
	return func(obj *object) {
		obj.Spec.TargetReference = v1beta1.PersistentPodStateTarget{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

func requires(keys ...string) func(*object) {
	return func(obj *object) { obj.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: keys} }
}

func preferred(weight int32, keys ...string) func(*object) {
	return func(obj *object) {
		obj.Spec.PreferredPersistentTopology = append(obj.Spec.PreferredPersistentTopology, v1beta1.PreferredTopologyTerm{Weight: weight, Preference: v1beta1.NodeTopologyTerm{Keys: keys}})
	}
}

func none(obj *object) { obj.Spec.RequiredPersistentTopology = nil }

func annotation(key string) func(*object) {
	return func(obj *object) {
		obj.Spec.PersistentPodAnnotations = []v1beta1.PersistentPodAnnotation{{Key: key}}
	}
}

func policy(policy string) func(*object) {
	return func(obj *object) {
		obj.Spec.PersistentPodStateRetentionPolicy = v1beta1.PersistentPodStateRetentionPolicy(policy)
	}
}

func named(namespace, name string) func(*object) {
	return func(obj *object) { obj.Namespace, obj.Name = namespace, name }
}

// said lists problems by path, each with its type.
func said(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s: %s", err.Field, err.Type))
	}
	return out
}

func TestValidateCreate(t *testing.T) {
	const (
		ref       = "spec.targetRef"
		invalid   = ": Invalid value"
		needed    = ": Required value"
		topology  = "spec.requiredPersistentTopology"
		weight0   = "spec.preferredPersistentTopology[0].weight"
		firstKeys = "spec.preferredPersistentTopology[0].preference.keys"
	)
	listed := []schema.GroupVersionKind{{Group: "game.io", Version: "v1", Kind: "GameServerSet"}}
	for _, c := range []struct {
		name   string
		obj    *object
		others []*object
		want   []string
	}{
		{"PS 9.1 a StatefulSet of apps", state(), nil, nil},
		{"PS 9.1 of an older version", state(forTarget("apps/v1beta1", "StatefulSet", "db")), nil, nil},
		{"PS 9.1 one of this group", state(forTarget("apps.kruise.io/v1alpha1", "StatefulSet", "db")), nil, nil},
		{"PS-11 a kind that is listed, in any version", state(forTarget("game.io/v7", "GameServerSet", "db")), nil, nil},
		{"PS-11 a kind that is not", state(forTarget("apps/v1", "Deployment", "db")), nil, []string{ref + invalid}},
		{"PS 9.1 nothing of the target", state(forTarget("", "", "")), nil, []string{ref + ".apiVersion" + needed, ref + ".kind" + needed, ref + ".name" + needed}},
		{"PS 9.1 no group and version", state(forTarget("a/b/c", "StatefulSet", "db")), nil, []string{ref + ".apiVersion" + invalid}},
		{"PS 9.1 no name", state(forTarget("apps/v1", "StatefulSet", "D_B")), nil, []string{ref + ".name" + invalid}},
		{"PS 9.1 another of the target, in another version", state(forTarget("apps.kruise.io/v1beta1", "StatefulSet", "db")), []*object{state(forTarget("apps.kruise.io/v1alpha1", "StatefulSet", "db"), named("shop", "other"))}, []string{ref + invalid}},
		{"PS 9.1 itself is no other", state(), []*object{state()}, nil},
		{"PS 9.1 another kind of the name", state(), []*object{state(forTarget("apps.kruise.io/v1", "StatefulSet", "db"), named("shop", "other"))}, nil},
		{"PS 9.1 another name", state(), []*object{state(forTarget("apps/v1", "StatefulSet", "web"), named("shop", "other"))}, nil},
		{"PS 9.1 another namespace", state(), []*object{state(named("else", "other"))}, nil},
		{"PS 9.1 no topology", state(none), nil, []string{topology + needed}},
		{"PS 9.1 preferred alone", state(none, preferred(1, "zone"), preferred(100, "host")), nil, nil},
		{"PS 9.1 no required keys", state(requires()), nil, []string{topology + ".keys" + needed}},
		{"PS 9.1 no label key", state(requires("zone", "a b")), nil, []string{topology + ".keys[1]" + invalid}},
		{"PS 9.1 weight 0, with which no Pod is accepted", state(preferred(0, "zone")), nil, []string{weight0 + invalid}},
		{"PS 9.1 weight 101", state(preferred(101, "zone")), nil, []string{weight0 + invalid}},
		{"PS-4 a preference without keys", state(preferred(1)), nil, []string{firstKeys + needed}},
		{"PS 9.1 a preferred key that is none", state(preferred(1, "-zone")), nil, []string{firstKeys + "[0]" + invalid}},
		{"PS 9.1 an annotation", state(annotation("Pod.io/ip")), nil, nil},
		{"PS 9.1 no annotation", state(annotation("a b")), nil, []string{"spec.persistentPodAnnotations[0].key" + invalid}},
		{"keys without end", state(requires(strings.Split(strings.Repeat("zone,", 50)+"zone", ",")...)), nil, []string{topology + ".keys: Too many"}},
		{"PS 9.1 both policies", state(policy("WhenDeleted")), nil, nil},
		{"PS 9.1 an unknown policy", state(policy("Never")), nil, []string{"spec.persistentPodStateRetentionPolicy: Unsupported value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var others []v1beta1.PersistentPodState
			for _, other := range c.others {
				others = append(others, *other)
			}
			s, errs := validateSpec(&c.obj.Spec)
			if len(errs) == 0 {
				errs = append(unlisted(c.obj, s, listed), rivals(c.obj, s, others)...)
			}
			if diff := cmp.Diff(c.want, said(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	for _, c := range []struct {
		name        string
		obj, stored *object
		want        []string
	}{
		{"PS 9.1 the target cannot change", state(forTarget("apps/v1", "StatefulSet", "web")), state(), []string{"spec.targetRef: Invalid value"}},
		{"PS 9.1 other keys", state(requires("zone")), state(), nil},
		{"PS 9.1 a spec that stays is not judged", state(preferred(0, "zone")), state(preferred(0, "zone")), nil},
		{"PS 9.1 neither is the part that stays", state(preferred(0, "zone"), policy("WhenDeleted")), state(preferred(0, "zone")), nil},
		{"PS 9.1 what is new is", state(preferred(0, "zone"), policy("Never")), state(preferred(0, "zone")), []string{"spec.persistentPodStateRetentionPolicy: Unsupported value"}},
		{"PS 9.1 another weight of 0", state(preferred(0, "zone")), state(preferred(5, "zone")), []string{"spec.preferredPersistentTopology[0].weight: Invalid value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, said(validateUpdate(c.obj, c.stored))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
