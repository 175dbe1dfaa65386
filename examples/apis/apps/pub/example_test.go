package pub_test

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

func Example() {
	hook := pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"example.test/hold": "true"}}}
	encoded, _ := json.Marshal(hook)
	fmt.Println(string(encoded))
	// Output: {"preDelete":{"labelsHandler":{"example.test/hold":"true"}}}
}
