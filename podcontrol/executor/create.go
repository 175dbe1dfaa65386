package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
)

// draft is a Pod to be created, and the labels and references of the Pod that no webhook may change.
type draft struct {
	pod *corev1.Pod
	// name and generateName are the Pod's names before the request. The created Pod's name must begin with prefix; if
	// prefix is empty, any name is allowed.
	name, generateName, prefix string
	// revision is the value of the revision label, and node the Node for the Pod; empty if not used.
	revision, node string
	// The function before creates objects that must exist before the Pod, such as claims. Optional.
	before func(ctx context.Context, pod *corev1.Pod) error
}

// draftOf returns the draft of a Pod that already has its name.
func (t *Turn[O]) draftOf(pod *corev1.Pod) draft {
	return draft{pod: pod, name: pod.Name, generateName: pod.GenerateName, revision: t.executor.control.RevisionOf(pod)}
}

// Create creates a Pod of the owner. A webhook or policy can remove the owner reference, a label of the selector or
// the revision label from the Pod. Create deletes such a Pod again: the owner would not count the Pod, and would
// create another Pod in every reconcile. Create sends no request if the given Pod lacks the reference or such a label
// (UnusablePod). Create returns an error for an owner being deleted (OwnerDeleting), and if the Rules are invalid
// (podcontrol.InvalidRules), because the loop over single Pods would never open the Pod's gate. If the Turn has a
// History, every Pod needs a revision label.
func (t *Turn[O]) Create(ctx context.Context, pod *corev1.Pod) error {
	return t.create(ctx, t.draftOf(pod))
}

// create calls the draft's function before, and then creates the Pod.
func (t *Turn[O]) create(ctx context.Context, d draft) error {
	if err := t.refuses(d); err != nil {
		return err
	}
	if d.before != nil {
		if err := errors.Join(d.before(ctx, d.pod), t.refuses(d)); err != nil {
			return err
		}
	}
	if err := t.Client.Create(ctx, d.pod); err != nil {
		return err
	}
	what := t.lacks(d)
	if what == "" {
		t.executor.options.Observe(t.Owner, Event{Type: Created, Pod: d.pod})
		return nil
	}
	err := t.Client.Delete(ctx, d.pod, client.Preconditions{UID: &d.pod.UID})
	return errors.Join(fmt.Errorf("its %s did not survive the API server's admission plugins", what), client.IgnoreNotFound(err))
}

// refuses says why a Pod must not be created.
func (t *Turn[O]) refuses(d draft) error {
	if err := t.deleting(); err != nil {
		return err
	}
	if err := t.executor.control.Validate(t.rules); err != nil {
		return reason.Final(err)
	}
	what := t.lacks(d)
	if what == "" && d.pod.GenerateName != d.generateName {
		what = "generated name " + d.generateName + "*"
	}
	if what == "" && d.name == "" && d.pod.Name != "" {
		what = "name from the API server"
	}
	if what == "" {
		return nil
	}
	object := reason.ObjectOf("Pod", d.pod)
	object.Name = cmp.Or(object.Name, d.pod.GenerateName+"*")
	return reason.Reason{
		Code: UnusablePod, Object: object, Detail: "it was made without its " + what,
		Remedy: "see to the template, its revision, and to what prepares the Pod",
	}
}

// deleting returns a final error if the owner is being deleted, so that nothing may be created for the owner.
func (t *Turn[O]) deleting() error {
	if t.Owner.GetDeletionTimestamp() == nil {
		return nil
	}
	owner := reason.ObjectOf(t.executor.cache.Kind().Kind, t.Owner)
	return reason.Final(reason.Reason{Code: OwnerDeleting, Object: owner, Detail: "nothing is made for an owner being deleted"})
}

// lacks names the first label or reference that the owner needs to recognise the Pod and that the Pod does not have;
// empty if the Pod has all.
func (t *Turn[O]) lacks(d draft) string {
	pod := d.pod
	at, _ := nodefit.NodeOf(pod)
	revision := t.executor.control.RevisionOf(pod)
	switch {
	case d.node != "" && at != d.node:
		return "place on Node " + d.node
	case pod.Namespace != t.Owner.GetNamespace():
		return "namespace " + t.Owner.GetNamespace()
	case d.name != "" && pod.Name != d.name:
		return "name " + d.name
	case pod.Name != "" && !strings.HasPrefix(pod.Name, d.prefix):
		return "name with the prefix " + d.prefix
	case !metav1.IsControlledBy(pod, t.Owner):
		return "owner reference"
	case t.Selector != nil && !t.Selector.Matches(labels.Set(pod.Labels)):
		return "labels that the selector asks for"
	case revision != d.revision, revision == "" && t.History != nil:
		return "revision label" // without the label the Pod would look outdated and be recreated
	}
	return ""
}
