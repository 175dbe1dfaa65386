package restart

import (
	"fmt"
	"slices"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// mostContainers is the largest number of container names in an annotation.
const mostContainers = 100

// Wish is the restart that a user requests by the annotation.
type Wish struct {
	// At is the time of the restart: containers that have started before At are to be restarted.
	At time.Time
	// Containers are the names of the containers to restart; nil means all containers of each Pod.
	Containers []string
	// text is the content of the annotation.
	text string
}

// String returns the content of the annotation, or the empty string for a nil Wish.
func (w *Wish) String() string {
	if w == nil {
		return ""
	}
	return w.text
}

// Read parses the annotation of a workload, and returns nil if there is no annotation. Invalid values become Problems
// of read.
func Read(read *judge.Reading, annotations map[string]string) *Wish {
	text, exists := annotations[apps.AnnotationRestartContainers]
	if !exists {
		return nil
	}
	words := strings.Fields(text)
	path := field.NewPath("metadata", "annotations").Key(apps.AnnotationRestartContainers)
	refuse := func(value, why string) {
		read.Refuse(field.Invalid(path, value, why+`; use a time and names of containers, such as "2026-03-01T12:00:00Z app"`))
	}
	if len(words) == 0 {
		refuse(text, "is empty")
		return nil
	}
	at, err := time.Parse(time.RFC3339, words[0])
	if err != nil {
		refuse(words[0], "is no RFC 3339 time")
	}
	names := words[1:]
	if len(names) > mostContainers {
		refuse(fmt.Sprint(len(names)), fmt.Sprintf("names more than %d containers", mostContainers))
		names = nil
	}
	for i, name := range names {
		if problems := utilvalidation.IsDNS1123Label(name); len(problems) > 0 {
			refuse(name, "is no name of a container: "+problems[0])
		} else if slices.Contains(names[:i], name) {
			refuse(name, "stands there twice")
		}
	}
	return &Wish{At: at, Containers: names, text: text}
}
