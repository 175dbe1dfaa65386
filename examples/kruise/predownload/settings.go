package predownload

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// The defaults are those of OpenKruise 1.9.
const (
	defaultParallelism    = 1
	defaultTimeoutSeconds = 300
)

// Settings are the values of a workload that say how images are pulled before a rollout.
type Settings struct {
	// Parallelism is the number of Nodes that pull an image at the same time.
	Parallelism intstr.IntOrString
	// TimeoutSeconds is how long a Node may pull.
	TimeoutSeconds int32
	// MinUpdatedReady is how many updated Pods must be ready before any image is pulled: a number, or a percentage of the
	// replicas that is rounded up. Zero waits for no Pod.
	MinUpdatedReady intstr.IntOrString
}

// Read returns the settings of a workload. If a field of the strategy is set, the annotation for the same value is
// not read. Invalid annotations become Warnings of read, and count as absent; the fields are validated by
// [judge.Reading.InPlace]. A nil strategy has no fields.
func Read(read *judge.Reading, annotations map[string]string, strategy *pub.InPlaceUpdateStrategy) Settings {
	if strategy == nil {
		strategy = &pub.InPlaceUpdateStrategy{}
	}
	s := Settings{Parallelism: intstr.FromInt32(defaultParallelism), TimeoutSeconds: defaultTimeoutSeconds}
	if value := strategy.ImagePreDownloadParallelism; value == nil {
		if n, ok := number(read, annotations, apps.AnnotationImagePreDownloadParallelism); ok {
			s.Parallelism = intstr.FromInt32(n)
		}
	} else if isCount(value) {
		s.Parallelism = *value
	}
	if value := strategy.ImagePreDownloadTimeoutSeconds; value == nil {
		if n, ok := number(read, annotations, apps.AnnotationImagePreDownloadTimeoutSeconds); ok && n > 0 {
			s.TimeoutSeconds = n
		}
	} else if *value > 0 {
		s.TimeoutSeconds = *value
	}
	if field := strategy.ImagePreDownloadMinUpdatedReadyPods; field != nil {
		s.MinUpdatedReady = intstr.FromInt32(max(*field, 0))
	} else {
		s.MinUpdatedReady = minUpdatedReady(read, annotations)
	}
	return s
}

func isCount(value *intstr.IntOrString) bool { return value.Type == intstr.Int && value.IntVal >= 0 }

// number returns the number in an annotation. ok is false if the annotation is absent or invalid.
func number(read *judge.Reading, annotations map[string]string, key string) (n int32, ok bool) {
	text, exists := annotations[key]
	if !exists {
		return 0, false
	}
	parsed, err := strconv.ParseInt(text, 10, 32)
	if err != nil || parsed < 0 {
		read.Warn(field.Invalid(field.NewPath("metadata", "annotations").Key(key), text, "must be a number of at least 0; the default is used"))
		return 0, false
	}
	return int32(parsed), true
}

// minUpdatedReady returns the number or percentage in the annotation.
func minUpdatedReady(read *judge.Reading, annotations map[string]string) (value intstr.IntOrString) {
	const key = apps.AnnotationImagePreDownloadMinUpdatedReadyPods
	text, exists := annotations[key]
	if !exists {
		return value
	}
	path := field.NewPath("metadata", "annotations").Key(key)
	parsed := intstr.Parse(text)
	if n, err := partition.ResolveUncapped(path.String(), &parsed, 1, partition.Up); err != nil || n < 0 {
		read.Warn(field.Invalid(path, text, "must be a number of at least 0 or a percentage; 0 is used"))
		return value
	}
	return parsed
}

// minReady returns the number of ready Pods that the settings ask for.
func (s *Settings) minReady(replicas int) int {
	n, _ := partition.ResolveUncapped("", &s.MinUpdatedReady, replicas, partition.Up) // Read refuses invalid values
	return n
}
