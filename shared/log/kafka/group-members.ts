import kafkajs, { type Admin } from 'kafkajs';
import type { GroupMember } from '../log.ts';

const { MemberAssignment } = kafkajs.AssignerProtocol;

/** Returns the members of groups, each of which reads one topic. Rejects with kafkajs's errors. */
export async function groupMembers(
  admin: Admin,
  groups: readonly string[],
): Promise<Map<string, GroupMember[]>> {
  const described = await admin.describeGroups([...groups]);
  return new Map(
    described.groups.map(({ groupId, members }) => [
      groupId,
      members.map(({ memberId, clientHost, memberAssignment }) => ({
        memberId,
        // Brokers write the address after a slash.
        host: clientHost.replace(/^\//, ''),
        partitions: partitionsOf(memberAssignment),
      })),
    ]),
  );
}

function partitionsOf(assignment: Buffer): number[] {
  if (assignment.length === 0) return [];
  return Object.values(MemberAssignment.decode(assignment)?.assignment ?? {}).flat();
}
