package manager

import "k8s.io/apimachinery/pkg/util/version"

// hasResizeSubresource reports whether an API server of the version has pods/resize: 1.32 and later. Suffixes such as
// "+gke.1" do not matter; an unreadable version counts as older.
func hasResizeSubresource(gitVersion string) bool {
	v, err := version.ParseGeneric(gitVersion)
	return err == nil && !v.LessThan(version.MajorMinor(1, 32))
}
