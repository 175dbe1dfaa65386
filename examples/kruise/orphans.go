package kruise

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
)

// TellOrphans sends a single event about Pods without a controller that match an owner's selector, for kinds without
// adoption. An owner deleted without its Pods and recreated has twice as many Pods.
func (p *Parts[O]) TellOrphans(v *ownercache.View[O], selector labels.Selector) {
	n, first := 0, ""
	for _, pod := range p.Cache.Pods.Orphans(v.Owner.GetNamespace()) {
		if !podstate.IsActive(pod) || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if n++; first == "" || pod.Name < first {
			first = pod.Name
		}
	}
	message := ""
	if n > 0 {
		message = fmt.Sprintf("Pods that match the selector and that nobody controls: %d, the first is %s; they are not adopted: delete them, "+
			"or make this the controller in their ownerReferences", n, first)
	}
	p.Told.Tell(p.Events, v.Owner, corev1.EventTypeWarning, apps.EventOrphansNotAdopted, message)
}
