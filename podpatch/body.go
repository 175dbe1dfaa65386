package podpatch

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
)

// body is the JSON of a strategic merge patch of a Pod, with only the fields of a Change.
type body struct {
	Metadata metaBody    `json:"metadata"`
	Spec     *specBody   `json:"spec,omitempty"`
	Status   *statusBody `json:"status,omitempty"`
}

type metaBody struct {
	UID              types.UID          `json:"uid"`
	ResourceVersion  string             `json:"resourceVersion,omitempty"`
	Labels           map[string]*string `json:"labels,omitempty"`
	Annotations      map[string]*string `json:"annotations,omitempty"`
	Finalizers       []string           `json:"finalizers,omitempty"`
	DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

func (m *metaBody) isEmpty() bool {
	return len(m.Labels) == 0 && len(m.Annotations) == 0 && len(m.Finalizers) == 0 && len(m.DeleteFinalizers) == 0
}

type specBody struct {
	Containers     []containerBody `json:"containers,omitempty"`
	InitContainers []containerBody `json:"initContainers,omitempty"`
}

func (s *specBody) add(of *corev1.Container, c containerBody) {
	if podstate.IsNativeSidecar(of) {
		s.InitContainers = append(s.InitContainers, c)
		return
	}
	s.Containers = append(s.Containers, c)
}

func (s *specBody) orNil() *specBody {
	if len(s.Containers)+len(s.InitContainers) == 0 {
		return nil
	}
	return s
}

type containerBody struct {
	Name      string         `json:"name"`
	Image     string         `json:"image,omitempty"`
	Resources *resourcesBody `json:"resources,omitempty"`
}

type resourcesBody struct {
	Limits   corev1.ResourceList `json:"limits,omitempty"`
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

type statusBody struct {
	Conditions []conditionBody `json:"conditions"`
}

// conditionBody encodes an empty reason or message as null, because an absent field would keep the old value.
type conditionBody struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
	Reason             *string                 `json:"reason"`
	Message            *string                 `json:"message"`
}

func newConditionBody(have, want *corev1.PodCondition, now time.Time) conditionBody {
	out := conditionBody{Type: want.Type, Status: want.Status, LastTransitionTime: metav1.NewTime(now)}
	if have != nil && have.Status == want.Status && !have.LastTransitionTime.IsZero() {
		out.LastTransitionTime = have.LastTransitionTime
	}
	if want.Reason != "" {
		out.Reason = &want.Reason
	}
	if want.Message != "" {
		out.Message = &want.Message
	}
	return out
}
