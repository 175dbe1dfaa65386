package onnode

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// place is an entry of a NodeImage's spec that names an image.
type place struct {
	image imagepull.Reference
	key   string // the key in spec.images
	tag   *v1beta1.ImageTagSpec
}

// places returns the entries of a spec that name valid images, each image once, sorted by key.
func places(spec *v1beta1.NodeImageSpec) (out []place) {
	seen := map[imagepull.Reference]bool{}
	for _, key := range slices.Sorted(maps.Keys(spec.Images)) {
		tags := spec.Images[key].Tags
		for i := range tags {
			image, err := imagepull.Join(key, tags[i].Tag)
			if err != nil || seen[image] {
				continue
			}
			seen[image] = true
			out = append(out, place{image, key, &tags[i]})
		}
	}
	return out
}

// Wants returns the images in the spec of a NodeImage, at most imagepull.MostImages.
func Wants(spec *v1beta1.NodeImageSpec) (wants []imagepull.Want) {
	for _, p := range places(spec) {
		if len(wants) == imagepull.MostImages {
			break
		}
		wants = append(wants, wantOf(p))
	}
	return wants
}

// Key returns the key in spec.images under which a NodeImage names an image; empty if the spec lacks the image.
func Key(spec *v1beta1.NodeImageSpec, image imagepull.Reference) string {
	for _, p := range places(spec) {
		if p.image == image {
			return p.key
		}
	}
	return ""
}

// Owners returns the jobs that want an image.
func Owners(spec *v1beta1.NodeImageSpec, image imagepull.Reference) []corev1.ObjectReference {
	for _, p := range places(spec) {
		if p.image == image {
			return p.tag.OwnerReferences
		}
	}
	return nil
}

func wantOf(p place) imagepull.Want {
	want := imagepull.Want{Image: p.image, Round: max(p.tag.Version, 0)}
	claim := imagepull.Claim{Round: want.Round, Policy: policyOf(p.tag)}
	if p.tag.CreatedAt != nil {
		claim.Since = p.tag.CreatedAt.Time
	}
	for _, owner := range p.tag.OwnerReferences {
		if len(want.Claims) == imagepull.MostClaims || ownerIn(&want, string(owner.UID)) {
			continue
		}
		own := claim
		own.Owner = imagepull.Owner(owner.UID)
		if version, known := p.tag.OwnerVersions[string(owner.UID)]; known && version >= 0 {
			own.Round = min(version, want.Round)
		}
		want.Claims = append(want.Claims, own)
	}
	if len(want.Claims) == 0 {
		want.Claims = []imagepull.Claim{claim}
	}
	return want
}

func ownerIn(want *imagepull.Want, uid string) bool {
	return slices.ContainsFunc(want.Claims, func(c imagepull.Claim) bool { return string(c.Owner) == uid })
}

// policyOf returns the policy of a tag. Agents of OpenKruise pull a present image unless the tag says IfNotPresent.
func policyOf(tag *v1beta1.ImageTagSpec) imagepull.Policy {
	policy := imagepull.Policy{Always: tag.ImagePullPolicy != corev1.PullIfNotPresent, Retries: -1}
	if limits := tag.PullPolicy; limits != nil {
		policy.Timeout = ptr.Deref(completion.Seconds(limits.TimeoutSeconds), 0)
		policy.Retries = int(ptr.Deref(limits.BackoffLimit, -1))
		policy.Deadline = completion.Seconds(limits.ActiveDeadlineSeconds)
		policy.TTL = completion.Seconds(limits.TTLSecondsAfterFinished)
		policy.Keep = limits.Keep
	}
	return policy
}

// SetWants changes a spec so that the spec contains exactly the Wants, and reports whether anything has changed. Tags
// that already have the wanted owners and version are not modified. owners contains the references for new owners.
func SetWants(spec *v1beta1.NodeImageSpec, wants []imagepull.Want, owners map[imagepull.Owner]corev1.ObjectReference, now time.Time) (changed bool) {
	wanted := make(map[imagepull.Reference]*imagepull.Want, len(wants))
	for i := range wants {
		wanted[wants[i].Image] = &wants[i]
	}
	remove := map[string][]string{}
	for _, p := range places(spec) {
		want, isWanted := wanted[p.image]
		delete(wanted, p.image)
		switch before := wantOf(p); {
		case !isWanted:
			remove[p.key] = append(remove[p.key], p.tag.Tag)
		case !equal(&before, want):
			setTag(p.tag, &before, want, owners, now)
			changed = true
		}
	}
	for key, tags := range remove {
		removeTags(spec, key, tags)
		changed = true
	}
	for image, want := range wanted {
		addTag(spec, image, want, owners, now)
		changed = true
	}
	return changed
}

// equal reports whether two Wants have the same version and the same owners.
func equal(a, b *imagepull.Want) bool {
	return a.Round == b.Round && slices.EqualFunc(a.Claims, b.Claims, func(c, d imagepull.Claim) bool {
		return c.Owner == d.Owner && c.Round == d.Round
	})
}

func removeTags(spec *v1beta1.NodeImageSpec, key string, tags []string) {
	image := spec.Images[key]
	image.Tags = slices.DeleteFunc(slices.Clone(image.Tags), func(t v1beta1.ImageTagSpec) bool { return slices.Contains(tags, t.Tag) })
	image.PullSecrets = without(image.PullSecrets, tags)
	spec.Images[key] = image
	if len(image.Tags) == 0 {
		delete(spec.Images, key)
	}
}

func addTag(spec *v1beta1.NodeImageSpec, image imagepull.Reference, want *imagepull.Want, owners map[imagepull.Owner]corev1.ObjectReference, now time.Time) {
	if spec.Images == nil {
		spec.Images = map[string]v1beta1.ImageSpec{}
	}
	tag := v1beta1.ImageTagSpec{Tag: image.Version()}
	setTag(&tag, &imagepull.Want{}, want, owners, now)
	in := spec.Images[image.Name()]
	in.Tags = append(slices.Clone(in.Tags), tag)
	slices.SortStableFunc(in.Tags, func(a, b v1beta1.ImageTagSpec) int { return strings.Compare(a.Tag, b.Tag) })
	spec.Images[image.Name()] = in
}

// setTag changes the owners and the version of a tag. A new owner also changes the creation time, and each limit of
// the pull becomes the longest timeout or the largest number of retries of all owners.
func setTag(tag *v1beta1.ImageTagSpec, before, want *imagepull.Want, owners map[imagepull.Owner]corev1.ObjectReference, now time.Time) {
	known, grows := tag.OwnerReferences, false
	tag.OwnerReferences, tag.OwnerVersions = nil, nil
	for _, claim := range want.Claims {
		uid := string(claim.Owner)
		i := slices.IndexFunc(known, func(ref corev1.ObjectReference) bool { return string(ref.UID) == uid })
		switch ref, given := owners[claim.Owner]; {
		case i >= 0:
			tag.OwnerReferences = append(tag.OwnerReferences, known[i])
		case given:
			tag.OwnerReferences, grows = append(tag.OwnerReferences, ref), true
		}
		if claim.Round < want.Round && uid != "" {
			if tag.OwnerVersions == nil {
				tag.OwnerVersions = map[string]int64{}
			}
			tag.OwnerVersions[uid] = claim.Round
		}
	}
	if tag.Version = want.Round; !grows && want.Round == before.Round {
		return
	}
	tag.CreatedAt = &metav1.Time{Time: now}
	policy := want.Policy()
	tag.ImagePullPolicy = corev1.PullIfNotPresent
	if policy.Always {
		tag.ImagePullPolicy = corev1.PullAlways
	}
	tag.PullPolicy = limitsOf(policy, want.Claims)
}

// limitsOf returns the limits of a tag. The tag stays as long as any owner needs the tag.
func limitsOf(policy imagepull.Policy, claims []imagepull.Claim) *v1beta1.ImageTagPullPolicy {
	limits := &v1beta1.ImageTagPullPolicy{
		TimeoutSeconds: seconds32(policy.Timeout), BackoffLimit: new(int32(min(policy.Retries, 1<<30))), Keep: policy.Keep,
	}
	if policy.Deadline != nil {
		limits.ActiveDeadlineSeconds = new(int64(*policy.Deadline / time.Second))
	}
	var longest time.Duration
	for _, claim := range claims {
		if claim.Policy.TTL == nil {
			return limits
		}
		longest = max(longest, *claim.Policy.TTL)
	}
	limits.TTLSecondsAfterFinished = seconds32(longest)
	return limits
}

func seconds32(d time.Duration) *int32 {
	return new(int32(min(max(d/time.Second, 0), 1<<31-1)))
}

// Look returns the Want for an image, if the spec contains the image, and the Report about the image after the check
// by imagepull.Merge.
func Look(obj *v1beta1.NodeImage, image imagepull.Reference, now time.Time) (wants []imagepull.Want, reports []imagepull.Report) {
	for _, p := range places(&obj.Spec) {
		if p.image != image {
			continue
		}
		wants = []imagepull.Want{wantOf(p)}
		tags := obj.Status.ImageStatuses[p.key].Tags
		for i := range tags {
			if tags[i].Tag == p.tag.Tag {
				reports, _ = imagepull.Merge(wants, nil, []imagepull.Report{reportOf(image, &tags[i])}, now)
				break
			}
		}
		break
	}
	return wants, reports
}

// SetSandbox sets the metadata for the container runtime, unless sandbox is nil, and reports whether anything has
// changed. All tags of a repository share the metadata.
func SetSandbox(spec *v1beta1.NodeImageSpec, image imagepull.Reference, sandbox *v1beta1.SandboxConfig) (changed bool) {
	for _, p := range places(spec) {
		in := spec.Images[p.key]
		if p.image != image || sandbox == nil || equality.Semantic.DeepEqual(in.SandboxConfig, sandbox) {
			continue
		}
		in.SandboxConfig, changed = sandbox.DeepCopy(), true
		spec.Images[p.key] = in
	}
	return changed
}
