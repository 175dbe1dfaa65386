package defaults

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

const (
	hostPart = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	registry = `(?:` + hostPart + `(?:\.` + hostPart + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	pathPart = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	tag      = `[\w][\w.-]{0,127}`
	digest   = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
)

// imageReference is the grammar of image names, with captures for tag and digest.
var imageReference = regexp.MustCompile(
	`^(?:` + registry + `/)?` + pathPart + `(?:/` + pathPart + `)*(?::(` + tag + `))?(?:@(` + digest + `))?$`)

// imageID is a form forbidden for names.
var imageID = regexp.MustCompile(`^[a-f0-9]{64}$`)

// pullPolicyFor is the Kubernetes rule: Always for the tag latest, explicit or by a missing tag and digest;
// IfNotPresent for everything else, unreadable names included.
func pullPolicyFor(image string) corev1.PullPolicy {
	parts := imageReference.FindStringSubmatch(image)
	if parts == nil || imageID.MatchString(image) {
		return corev1.PullIfNotPresent
	}
	tag, digest := parts[1], parts[2]
	if tag == "latest" || tag == "" && digest == "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
