package v1beta1_test

import (
	"fmt"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

func ExampleOperationsIn() {
	fmt.Println(v1beta1.OperationsIn("DELETE, EVICT"))
	fmt.Println(v1beta1.OperationsIn("DELETE,MOVE"))
	// Output:
	// [DELETE EVICT]
	// []
}
