package onnode

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// Reports returns the reports in the status of a NodeImage about tags in the spec. The caller must pass the reports
// to imagepull.Merge for a check, because a Node can forge reports.
func Reports(obj *v1beta1.NodeImage) (reports []imagepull.Report) {
	for _, p := range places(&obj.Spec) {
		tags := obj.Status.ImageStatuses[p.key].Tags
		i := slices.IndexFunc(tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == p.tag.Tag })
		if i >= 0 {
			reports = append(reports, reportOf(p.image, &tags[i]))
		}
	}
	return reports
}

func reportOf(image imagepull.Reference, tag *v1beta1.ImageTagStatus) imagepull.Report {
	report := imagepull.Report{
		Image: image, Round: tag.Version, Phase: imagepull.Phase(tag.Phase), Attempts: int(tag.Attempts),
		Started: timeOf(tag.StartTime), Ended: timeOf(tag.CompletionTime), Again: timeOf(tag.RetryTime),
		Present: ptr.Deref(tag.Present, tag.Phase == v1beta1.ImagePhaseSucceeded),
		Losses:  int(tag.Losses), ID: bareID(tag.ImageID), Bytes: uint64(max(tag.SizeBytes, 0)), Message: tag.Message,
	}
	for _, a := range tag.Answers {
		report.Answers = append(report.Answers, imagepull.Answer{
			Round: a.Version, Phase: imagepull.Phase(a.Phase), Ended: timeOf(a.CompletionTime), Message: a.Message,
		})
	}
	return report
}

// bareID returns the image ID without the repository name that precedes the ID in a status ("name@ID").
func bareID(imageID string) string {
	if i := strings.LastIndexByte(imageID, '@'); i >= 0 {
		return imageID[i+1:]
	}
	return imageID
}

// fullID returns the image ID in the form of a status: "name@ID".
func fullID(image imagepull.Reference, id string) string {
	if id == "" {
		return ""
	}
	return image.Name() + "@" + id
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// SetReports writes reports, and the numbers of pulls in each phase, into the status of a NodeImage. Reports about
// tags that are not in the spec are left out. The given conditions replace conditions of the same types, and now
// becomes the lastTransitionTime of changed conditions.
func SetReports(obj *v1beta1.NodeImage, reports []imagepull.Report, now time.Time, conditions ...metav1.Condition) {
	byImage := make(map[imagepull.Reference]*imagepull.Report, len(reports))
	for i := range reports {
		byImage[reports[i].Image] = &reports[i]
	}
	status := v1beta1.NodeImageStatus{FirstSyncStatus: obj.Status.FirstSyncStatus, Conditions: slices.Clone(obj.Status.Conditions)}
	for _, p := range places(&obj.Spec) {
		status.Desired++
		report := byImage[p.image]
		if report == nil {
			continue
		}
		if status.ImageStatuses == nil {
			status.ImageStatuses = map[string]v1beta1.ImageStatus{}
		}
		in := status.ImageStatuses[p.key]
		in.Tags = append(in.Tags, tagStatusOf(p.tag.Tag, report))
		slices.SortStableFunc(in.Tags, func(a, b v1beta1.ImageTagStatus) int { return strings.Compare(a.Tag, b.Tag) })
		status.ImageStatuses[p.key] = in
		count(&status, report.Phase)
	}
	for _, condition := range conditions {
		condition.LastTransitionTime = metav1.Time{Time: now}
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	obj.Status = status
}

func count(status *v1beta1.NodeImageStatus, phase imagepull.Phase) {
	switch phase {
	case imagepull.Succeeded:
		status.Succeeded++
	case imagepull.Failed:
		status.Failed++
	case imagepull.Pulling:
		status.Pulling++
	default:
		status.Waiting++
	}
}

func tagStatusOf(tag string, report *imagepull.Report) v1beta1.ImageTagStatus {
	status := v1beta1.ImageTagStatus{
		Tag: tag, Phase: v1beta1.ImagePullPhase(report.Phase), Version: report.Round, ImageID: fullID(report.Image, report.ID), Message: report.Message,
		StartTime: timestamp(report.Started), CompletionTime: timestamp(report.Ended), RetryTime: timestamp(report.Again),
		Present: new(report.Present), Attempts: int32(report.Attempts), Losses: int32(report.Losses), SizeBytes: int64(report.Bytes),
	}
	if report.Phase == imagepull.Succeeded {
		status.Progress = 100
	}
	for _, a := range report.Answers {
		status.Answers = append(status.Answers, v1beta1.ImageTagAnswer{
			Version: a.Round, Phase: v1beta1.ImagePullPhase(a.Phase), CompletionTime: timestamp(a.Ended), Message: a.Message,
		})
	}
	return status
}

func timestamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
