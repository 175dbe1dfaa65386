package resourcedistribution

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IsSystem reports whether a namespace gets no new copy, whatever the targets.
func IsSystem(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic
}
