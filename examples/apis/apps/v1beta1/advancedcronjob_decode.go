package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *AdvancedCronJobSpec) UnmarshalJSON(data []byte) error {
	type plain AdvancedCronJobSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = AdvancedCronJobSpec(read)
	if broadcast := s.Template.BroadcastJobTemplate; broadcast != nil {
		for _, problem := range broadcast.Spec.Undecodable {
			problem.Path = "spec.template.broadcastJobTemplate." + problem.Path
			problems = append(problems, problem)
		}
	}
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s AdvancedCronJobSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain AdvancedCronJobSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *AdvancedCronJobStatus) UnmarshalJSON(data []byte) error {
	type plain AdvancedCronJobStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = AdvancedCronJobStatus(read)
	return nil
}
