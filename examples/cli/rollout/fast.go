package rollout

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// scale is the number of replicas to which the percentages of steps are applied. The number is large, so that
// different percentages give different counts.
const scale = 10000

// fastBack sets a Rollout back to an earlier step by a change of its status.
func fastBack(u *unstructured.Unstructured) (string, error) {
	for strategy, status := range map[string]string{"blueGreen": "status.blueGreenStatus", "canary": "status.canaryStatus"} {
		if _, found := fields.At(u.Object, status); !found {
			continue
		}
		next, err := fastStep(fields.List(u.Object, "spec.strategy."+strategy+".steps"), fields.Int(u.Object, status+".currentStepIndex"))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("rolled back to step %d", next), fields.Set(u.Object, next, status+".nextStepIndex")
	}
	return "", errors.New("the Rollout has no step to leave")
}

// fastStep returns the number of the step to go back to; the first step is 1. fastStep chooses from the earlier steps
// without traffic the step with the most replicas, and from equal steps the last.
func fastStep(steps []fields.Object, current int64) (int64, error) {
	if current <= 1 {
		return 0, fmt.Errorf("step %d has no step before", current)
	}
	best, most := int64(0), -1
	for i := range min(int(current)-1, len(steps)) {
		traffic := strings.TrimSuffix(fields.String(steps[i], "traffic"), "%")
		if traffic != "" && traffic != "0" {
			continue
		}
		replicas, err := partition.ResolveUncapped("replicas", fields.IntOrString(steps[i], "replicas"), scale, partition.Up)
		if err != nil {
			return 0, fmt.Errorf("step %d: %w", i+1, err)
		}
		if replicas >= most {
			best, most = int64(i)+1, replicas
		}
	}
	if best == 0 {
		return 0, fmt.Errorf("no step before step %d is without traffic", current)
	}
	return best, nil
}
