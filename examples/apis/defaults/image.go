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

// imageReference matches valid image names, and captures tag and digest.
var imageReference = regexp.MustCompile(
	`^(?:` + registry + `/)?` + pathPart + `(?:/` + pathPart + `)*(?::(` + tag + `))?(?:@(` + digest + `))?$`)

// imageID matches the form of an image ID, which image names must not have.
var imageID = regexp.MustCompile(`^[a-f0-9]{64}$`)

// pullPolicyFor returns the default imagePullPolicy by the rule of Kubernetes: Always for the tag latest, explicit or
// by a missing tag and digest; IfNotPresent in all other cases, even if the name is invalid.
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
