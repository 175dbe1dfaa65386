package resourcedistribution

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IsSystem reports whether a namespace belongs to the system, and so gets no new copy, even if the targets select it.
func IsSystem(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic
}
