package advancedcronjob

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// JobName is the name of the job of an AdvancedCronJob for a slot. The name is always the same, so nobody starts two
// jobs.
func JobName(name string, slot time.Time) string {
	return name + "-" + strconv.FormatInt(slot.Unix(), 10)
}

func templatePath() *field.Path { return field.NewPath("spec", "template") }

// JobPath is where the template of Jobs is.
func JobPath() *field.Path { return templatePath().Child("jobTemplate") }

// BroadcastJobPath is where the template of BroadcastJobs is.
func BroadcastJobPath() *field.Path { return templatePath().Child("broadcastJobTemplate") }

// ImageListPath is where the template of ImageListPullJobs is.
func ImageListPath() *field.Path { return templatePath().Child("imageListPullJobTemplate") }
