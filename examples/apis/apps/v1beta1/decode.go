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
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain CloneSetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a spec that need not make sense, as that of a CloneSet does.
func (s *StatefulSetSpec) UnmarshalJSON(data []byte) error {
	type plain StatefulSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = StatefulSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s StatefulSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain StatefulSetSpec
	return json.Marshal(plain(s))
}

func readInFull(problems []decode.Problem) error {
	if len(problems) > 0 {
		return fmt.Errorf("a spec that was not decoded in full cannot be written: %w", problems[0])
	}
	return nil
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

// UnmarshalJSON reads a status, and leaves out what makes no sense, as that of a CloneSet does.
func (s *StatefulSetStatus) UnmarshalJSON(data []byte) error {
	type plain StatefulSetStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = StatefulSetStatus(read)
	return nil
}
