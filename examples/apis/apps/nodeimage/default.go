// Package nodeimage answers "what does a NodeImage say where a user has left a field out?"
package nodeimage

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultTimeoutSeconds int32 = 600
	DefaultBackoffLimit   int32 = 3
)

// Default sets the fields left out by the user. Tags without a time get the time now. Default is idempotent.
func Default(obj *v1beta1.NodeImage, now time.Time) {
	for _, image := range obj.Spec.Images {
		for i := range image.Tags {
			tag := &image.Tags[i]
			defaults.IfNil(&tag.CreatedAt, metav1.Time{Time: now})
			defaults.IfNil(&tag.PullPolicy, v1beta1.ImageTagPullPolicy{})
			defaults.IfNil(&tag.PullPolicy.TimeoutSeconds, DefaultTimeoutSeconds)
			defaults.IfNil(&tag.PullPolicy.BackoffLimit, DefaultBackoffLimit)
		}
	}
}
