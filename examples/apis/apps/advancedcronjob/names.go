package advancedcronjob

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// JobName is the name of the job of an AdvancedCronJob for a slot. The name for a slot is always the same, so a second
// job for the slot cannot be created.
func JobName(name string, slot time.Time) string {
	return name + "-" + strconv.FormatInt(slot.Unix(), 10)
}

func templatePath() *field.Path { return field.NewPath("spec", "template") }

// JobPath returns the path of the template of Jobs.
func JobPath() *field.Path { return templatePath().Child("jobTemplate") }

// BroadcastJobPath returns the path of the template of BroadcastJobs.
func BroadcastJobPath() *field.Path { return templatePath().Child("broadcastJobTemplate") }

// ImageListPath returns the path of the template of ImageListPullJobs.
func ImageListPath() *field.Path { return templatePath().Child("imageListPullJobTemplate") }
