package manager

import "k8s.io/apimachinery/pkg/util/version"

// hasResizeSubresource reports whether an API server of the given version has the subresource pods/resize, which exists
// since version 1.32. Suffixes of the version such as "+gke.1" do not matter. A version that cannot be parsed counts as
// older than 1.32.
func hasResizeSubresource(gitVersion string) bool {
	v, err := version.ParseGeneric(gitVersion)
	return err == nil && !v.LessThan(version.MajorMinor(1, 32))
}
