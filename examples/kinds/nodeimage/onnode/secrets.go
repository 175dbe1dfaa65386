package onnode

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// Secrets returns the Secrets whose credentials may be used for an image. A reference that lists tags is valid only
// for these tags. So the credentials of a job are not used for another job's image in the same repository.
func Secrets(spec *v1beta1.NodeImageSpec, image imagepull.Reference) (secrets []types.NamespacedName) {
	for _, p := range places(spec) {
		if p.image != image {
			continue
		}
		for _, ref := range spec.Images[p.key].PullSecrets {
			if len(ref.Tags) == 0 || slices.Contains(ref.Tags, p.tag.Tag) {
				secrets = append(secrets, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
			}
		}
	}
	return secrets
}

// SetSecrets replaces the Secret references for an image in the spec, and reports whether anything has changed.
// References without tags, which OpenKruise writes, stay.
func SetSecrets(spec *v1beta1.NodeImageSpec, image imagepull.Reference, secrets []v1beta1.ReferenceObject) (changed bool) {
	for _, p := range places(spec) {
		if p.image != image {
			continue
		}
		in := spec.Images[p.key]
		after := setSecrets(in.PullSecrets, p.tag.Tag, secrets)
		if !slices.EqualFunc(in.PullSecrets, after, equalReferences) {
			in.PullSecrets, changed = after, true
			spec.Images[p.key] = in
		}
	}
	return changed
}

func equalReferences(a, b v1beta1.ReferenceObject) bool {
	return isSame(a, b) && a.Mode == b.Mode && slices.Equal(a.Tags, b.Tags)
}

func isSame(a, b v1beta1.ReferenceObject) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

func setSecrets(before []v1beta1.ReferenceObject, tag string, wanted []v1beta1.ReferenceObject) (after []v1beta1.ReferenceObject) {
	for _, ref := range before {
		isWanted := slices.ContainsFunc(wanted, func(w v1beta1.ReferenceObject) bool { return isSame(w, ref) })
		has := slices.Contains(ref.Tags, tag)
		switch {
		case len(ref.Tags) == 0:
		case isWanted && !has:
			ref.Tags = append(slices.Clone(ref.Tags), tag)
			slices.Sort(ref.Tags)
		case !isWanted && has:
			if ref.Tags = others(ref.Tags, tag); len(ref.Tags) == 0 {
				continue
			}
		}
		after = append(after, ref)
	}
	for _, ref := range wanted {
		if !slices.ContainsFunc(before, func(b v1beta1.ReferenceObject) bool { return isSame(b, ref) }) {
			ref.Tags = []string{tag}
			after = append(after, ref)
		}
	}
	return after
}

func others(tags []string, tag string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == tag })
}

// without removes tags from references, and then removes references that have lost their last tag.
func without(refs []v1beta1.ReferenceObject, tags []string) (out []v1beta1.ReferenceObject) {
	for _, ref := range refs {
		left := slices.DeleteFunc(slices.Clone(ref.Tags), func(t string) bool { return slices.Contains(tags, t) })
		if len(ref.Tags) == 0 || len(left) > 0 {
			ref.Tags = left
			out = append(out, ref)
		}
	}
	return out
}

// Lacks reports whether a spec lacks some of the references for an image.
func Lacks(spec *v1beta1.NodeImageSpec, image imagepull.Reference, wanted []v1beta1.ReferenceObject) bool {
	have := Secrets(spec, image)
	return slices.ContainsFunc(wanted, func(ref v1beta1.ReferenceObject) bool {
		return !slices.Contains(have, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	})
}
