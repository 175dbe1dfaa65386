package v1beta1

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec that need not make sense: no schema checks templates, or that an integer or percentage has 32 bits, and a
// list of CloneSets must not fail for one of them. What is wrong with it is in Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) error {
	type plain CloneSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = CloneSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	if len(s.Undecodable) > 0 {
		return nil, fmt.Errorf("a spec that was not decoded in full cannot be written: %w", s.Undecodable[0])
	}
	type plain CloneSetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status, and leaves out what makes no sense: the schema accepts times that Go does not, such as one with a small t.
// Whoever writes the status next puts it right.
func (s *CloneSetStatus) UnmarshalJSON(data []byte) error {
	type plain CloneSetStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = CloneSetStatus(read)
	return nil
}
