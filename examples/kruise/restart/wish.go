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

// mostContainers bounds the names in an annotation.
const mostContainers = 100

// Wish is a user's wish for a restart.
type Wish struct {
	// At is the time before which no container is to have started.
	At time.Time
	// Containers are the names of the containers, nil for all of a Pod.
	Containers []string
	// text is the annotation.
	text string
}

// String returns the annotation, the empty string without a wish.
func (w *Wish) String() string {
	if w == nil {
		return ""
	}
	return w.text
}

// Read reads the annotation of a workload, nil for none. Unreadable values are problems.
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
